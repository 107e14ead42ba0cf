# Wrong declarations: each error names the mistake and its place.
t() { dlsh -n --db none -k -c "$1" 2>&1; }
l='extern "libc.so.6"'
t "$l int getppid();"
t "$l int getppid(void);
getppid() > 0"
t "$l int f();"
t "$l int abs(owned int x);"
t "$l keep int abs(int x);"
t "$l out int abs(int x);"
t "$l owned int abs(int x);"
t "$l char *strdup(keep const char *s);"
t "$l long strtol(const char *s, out char end, int base);"
t "$l int printf(const char *f, ..., int x);"
t "$l struct { int x; };"
t "$l typedef int;"
t "$l struct s { int a : 40; };"
t "$l struct s { _Bool b : 2; };"
t "$l struct s { int f(int); };"
t "$l struct s { struct s inner; };"
t "$l { struct s { int a; }; union u; enum e { Q }; typedef struct s s; int; }"
t "$l struct r { struct { int a; }; int b; };
new(\"struct r\").a"
t 'extern "libm.so.6" double cos(double x, double x);'
t 'extern "libm.so.6" double cos(double x), sin(double x), zork(double);'
t 'extern "libm.so.6" double cos(x);'
t 'extern "libm.so.6" cos;'
t 'extern "libm.so.6" { double cos(double x)'
t "$l owned(nofree) char *strdup(const char *s);
strdup(\"a\")"
t "$l int f(int x = 3);"
t "$l int &f(int x);"
t "$l long long long f(void);"
t "$l enum { A = 1 / 0 };"
t "$l struct s { int x[A]; };"
t "$l int getpid(void, int);"
t "$l class Foo { };"
t "$l header;"
t "$l header \"\";"
t "$l flags=5 header <stdio.h>;"
t "$l flags=\"-nonsense-flag\" header <stdio.h>;"
