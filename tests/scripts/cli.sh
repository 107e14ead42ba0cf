# Options, exit statuses, where errors point.
run() {
    echo "\$ dlsh $*"
    dlsh "$@" 2>&1 </dev/null
    echo "=> $?"
}
run --version
run --help
run -n -c '1 + 1'
run -qnc '1 + 1; 2 + 2;'
run --ech -c 1
run -z
run -echo
run --mode xml -c 1
run --seed -3 -c 1
run -n -c 1 -c 2
run --device tpu -c 1
run -c
run missing.dlsh
JUPYTER_DATA_DIR=$PWD/jupyter run kernel install | sed "s|$PWD|HERE|"
grep -c '"{connection_file}"' jupyter/kernels/dlsh/kernel.json
run kernel install --prefix=$PWD/prefix | sed "s|$PWD|HERE|g"
VIRTUAL_ENV=$PWD/venv run kernel install --sys-prefix | sed "s|$PWD|HERE|g"
run kernel install --users
run kernel install --prefix
run kernel run
run kernel run missing.json
run kernel start
ports='"shell_port":1,"control_port":2,"stdin_port":3,"hb_port":4'
echo "{$ports}" >few.json
run kernel run few.json
echo "{$ports,\"iopub_port\":5,\"key\":\"k\",\"signature_scheme\":\"hmac-nope\"}" >scheme.json
run kernel run scheme.json
mkdir nolib
: >nolib/libzmq.so.5
LD_LIBRARY_PATH=$PWD/nolib run kernel run scheme.json | sed "s|$PWD|HERE|g"
run -n -c 'x = 1 + nothing'
run -n -c 'x = (1 +'
run -n -k -c 'nothing
print("still here")'
run -n -c 'exit 7'
run -n --db none -c 'set db'
echo 'print("from stdin")
3 * nope' | dlsh -n 2>&1
echo "=> $?"
cat >two.dlsh <<'END'
# a script with arguments
args epochs=5 rate=0.1 data="" fast=false
print(epochs, rate, data, fast)
END
run -n two.dlsh
run -n two.dlsh epochs=2 rate=1e-3 data=/tmp fast=true
run -n two.dlsh epoch=2
run -n two.dlsh epochs=many
run -n two.dlsh epochs
run -n two.dlsh --help
echo 'print("no args here")' >plain.dlsh
run -n plain.dlsh epochs=2
run -n plain.dlsh --help
run -n --echo -c 'x = 2
x * 3'
mkdir -p home/.config/dlsh
echo 'from_rc = 11' >home/.config/dlsh/rc.dlsh
HOME=$PWD/home run -c 'from_rc'
HOME=$PWD/home run -n -c 'from_rc'
PATH=$(dirname "$(command -v dlsh)") run -n -c 'x = [1.0, 2]; plot x out=x.png'
run -n -c 'help(matmul)'
dlsh -n -c 'help report' | grep -c ^report # its group, which has it alone, is not listed
dlsh serve --help | head -1
dlsh sweep -h | head -1
dlsh -n -c 'for i in range(3) { print(i) }' | cat
dlsh -n -c 'print("lost")' >/dev/full
echo "=> $?"
dlsh -n -c 'print("begun")
while true { x = 1 }' >said 2>&1 &
until grep -qs begun said; do sleep 0.05; done
kill -INT $!
wait $!
cat said
printf '1 + 1\n' | dlsh -n -i -q --db none
echo 'exit 5' >home/.config/dlsh/rc.dlsh
HOME=$PWD/home run -c 'print("not reached")'
echo 'wrong' >home/.config/dlsh/rc.dlsh
HOME=$PWD/home run -c 'print("goes on")'
