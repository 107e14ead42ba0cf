# The prompt at a pseudo-terminal: editing, completion, several lines, Ctrl-C, history, leaving.
python3 repl.py
