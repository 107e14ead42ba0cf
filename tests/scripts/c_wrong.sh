# What can go wrong with C blocks and called C: each time a message at the right place, and the session continues.
t() { dlsh -n --db none -k -c "$1"; }
t 'x = 1
C { float bad(float x) {
      return nothing * x; } }
x'
t 'C { int f(int x) { return x == 3 } }'
t 'C { int f(void) { return undeclared(1); } }'
t 'C { int g(void); int f(void) { return g(); } }'
t 'C { #include <no/such.h>
}'
t 'C flag="-O3" { int x; }'
t 'C lib=3 { int x; }'
t 'C cc="no-such-cc" { int x; }'
t 'C flags="-O3 '"'"'open" { int x; }'
t 'C lib="no_such_library" { int x; }'
t 'C { int f(void) { int x = "text"; return x; } }'
t 'C { int sum(int a, int b) { return a + b; } }
sum(1)
sum(1, 2.5)
C { int sum(int a) { return a; } }
C { int use(void) { return sum(1, 2); } }
sum(4)'
t 'C { int null(int *p) { return *p; }
int divide(int a, int b) { return a / b; }
#include <stdlib.h>
void give_up(void) { abort(); }
}
null(NULL)
divide(1, 0)
divide(6, 3)
give_up()
try { divide(1, 0) } catch e { print(e.kind) }
divide(8, 2)'
t 'C { int broken( { }'
t 'fn f() {
    C { int one(void) { return 1 + ; } }
}
f()'
# the last semicolon may be left out, as after extern
t 'C { int x = 1 }
C flags="-pedantic" { int y = 2 }
x[0] + y[0]'
t 'C cc="false" { int f(void) { return 1; } }'
