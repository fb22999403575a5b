"""What is typed: one file a command, with its arguments, its help, and nothing that takes time to
import. What a command does is in the file of its name one folder up, imported when it is run.
"""
