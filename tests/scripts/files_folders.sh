# Folders and files as a whole, and files that are not plain files: what they do, and one clear error where they cannot.
run() { dlsh -n --db none -k "$@" 2>&1 | grep -v '^    ' | sed "s#$PWD/##"; }
run - <<'E'
make_dir("a/b/c"); make_dir("a/b/c/"); make_dir("a")
write_text("a/one.txt", "one"); write_text("a/b/two.txt", "two\n")
[list_dir("a"), list_dir("a/b"), exists("a/b/c"), is_dir("a"), file_size("a/b/two.txt")]
copy_file("a/one.txt", "a/b/one.txt"); read_text("a/b/one.txt")
copy_file("a/b/two.txt", "a/one.txt"); read_text("a/one.txt")
rename_file("a/one.txt", "a/three.txt"); list_dir("a")
rename_file("a/three.txt", "a/b/two.txt"); rename_file("a/b", "a/d"); list_dir("a/d")
remove_file("a/d/one.txt"); remove_dir("a/d/c"); list_dir("a/d")
remove_dir("a/d")
remove_dir("a", all=true); exists("a")
write_text("f", "")
make_dir("f")
make_dir("f/g")
make_dir("")
list_dir("none")
list_dir("f")
remove_file("none")
remove_dir("none")
remove_dir("f")
remove_file("/")
rename_file("none", "f")
rename_file("f", "none/f")
copy_file("none", "g")
copy_file("f", "none/g")
copy_file("/dev/zero", "g")
file_size("none")
os.listdir(".")
mkdir("x")
E
mkdir closed; ln -s nowhere link
echo x > closed/x; chmod 555 closed
closed=; [ "$(id -u)" = 0 ] && closed="setpriv --bounding-set -dac_override,-dac_read_search"
for e in 'remove_file("closed/x")' 'make_dir("closed/y/z")' 'copy_file("f", "closed/f")' 'rename_file("f", "closed/f")'; do
    $closed dlsh -n --db none -c "$e" 2>&1 | grep -v '^    ' | sed "s#$PWD/##"
done
run -c 'remove_file("link")
list_dir("closed")
copy_file("f", "/dev/full")'
head -c 100000 /dev/zero > large
(ulimit -f 10; run -c 'copy_file("large", "copy")
exists("copy")')
ls -A | grep part

# what has no end, or is not a file
mkfifo fifo
for what in read_text read_lines read_csv load; do run -c "$what(\"/dev/zero\")"; done
run -c 'read_text(".")
[read_text("/dev/null"), len(read_text("/proc/self/status")) > 100]'
truncate -s 2G huge; run -c 'read_text("huge")'; rm huge
echo piped | run -c 'read_lines("/dev/stdin")'
(echo word > fifo) & run -c 'read_text("fifo")'; wait
timeout --preserve-status -s INT 0.5 dlsh -n --db none -c 'read_text("fifo")' 2>&1; echo "status $?"
