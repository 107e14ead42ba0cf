# Ctrl-C in the midst of one long statement of each kind, further presses, a script.
python3 -c 'import pty; pty.openpty()' 2>/dev/null || { echo "skipped: no pseudo-terminals here (devpts is not mounted)"; exit 77; }
export OMP_NUM_THREADS=2 # computations of several threads end, too
python3 interrupts.py 1 \
    "^products$|^one product|pointwise|^columns|gradients|sum of|^sorted|equal lists|printing|sql|csv|save|points|^copy$|singular"
