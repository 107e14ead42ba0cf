# files: doctor.d
# Programs with one mistake each, see bugs.sh there.
sh bugs.sh b*.dlsh c*.dlsh d*.dlsh e*.dlsh
