"""What the models of single-location regression share: data, activations, planted averages."""
