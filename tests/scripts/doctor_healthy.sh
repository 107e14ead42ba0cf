# files: doctor.d
# parts: 4 (1 under sanitizers)
# Sanitizers take the first parts, a quarter of the programs of each kind: half of their time is the start of a process.
# Programs that are well, but for a note where `#! a note is right`: the doctor is quiet.
for f in $(sh part.sh [hk]*.dlsh); do
    dlsh -n --db none "$f" >out 2>err || cat err
    alarm="^(FAIL|NOTE)"
    grep -q '^#! a note is right' "$f" && alarm=^FAIL
    if grep -qE "$alarm" out; then echo "$f: a false alarm"; cat out; fi
done
