# Ctrl-C in each phase of data that functions make: one message, and everything goes on afterwards.
python3 -c 'import pty; pty.openpty()' 2>/dev/null || { echo "skipped: no pseudo-terminals here (devpts is not mounted)"; exit 77; }
python3 data_interrupt.py
