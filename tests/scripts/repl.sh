# The prompt at a pseudo-terminal: editing, completion, several lines, Ctrl-C, history, leaving.
python3 -c 'import pty; pty.openpty()' 2>/dev/null || { echo "skipped: no pseudo-terminals here (devpts is not mounted)"; exit 77; }
python3 repl.py
