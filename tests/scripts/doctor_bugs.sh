# files: doctor.d
# parts: 8 (2 under sanitizers)
# Programs with one mistake each, see bugs.sh there.
sh bugs.sh $(sh part.sh [b-g]*.dlsh)
