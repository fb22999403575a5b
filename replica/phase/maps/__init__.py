"""Over two controls: thresholds as lines, risks between them, branches on a grid."""
