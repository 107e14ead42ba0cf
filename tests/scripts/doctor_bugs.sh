# files: doctor.d
# parts: 8 (2 under sanitizers)
# Sanitizers take the first parts, a quarter of the programs of each kind: half of their time is the start of a process.
# Programs with one mistake each, see bugs.sh there.
sh bugs.sh $(sh part.sh [b-g]*.dlsh)
