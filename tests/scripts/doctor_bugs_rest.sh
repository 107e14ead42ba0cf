# files: doctor.d
# The rest of the programs with one mistake each, see bugs.sh there.
sh bugs.sh g[n-z]*.dlsh
