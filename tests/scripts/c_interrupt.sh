# Ctrl-C ends C that never returns, with the line it was in; the process then handles the interrupt as usual.
dlsh -n --db none -c 'C {
    #include <stdio.h>
    void forever(void) {
        puts("running"), fflush(stdout);
        for (volatile int i = 1; i; i ^= 2) {}
    }
}
forever()' >out 2>err &
while ! grep -qs running out; do sleep 0.05; done
kill -INT $!
wait $!
echo "status $?"
cat out err
