# Texts and tables are files: what waits for a writer, or has no end, is an error at once.
run() { timeout 120 dlsh -n --db none "$@" 2>&1 | grep -v '^    '; }
mkfifo table.csv
run -c 'dataset("csv", "table.csv")'
run -c 'dataset("csv", "/dev/zero")'
run -c 'read "/dev/zero"'
run /dev/zero
mkfifo script.dlsh
echo 'print("from a pipe")' >script.dlsh &
run script.dlsh
