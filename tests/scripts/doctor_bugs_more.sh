# files: doctor.d
# More programs with one mistake each, see bugs.sh there.
sh bugs.sh g[0-9a-m]*.dlsh
