# What goes wrong with C says where and how to mend it, and nothing crashes.
e() { dlsh -n --db none -c "$1" 2>&1; echo "= $?"; }
m='extern "libm.so.6" double hypot(double x, double y);
'
c='extern "libc.so.6" { int printf(const char *f, ...); long labs(long n); size_t strlen(const char *s); void *memset(float *to, int c, size_t n);
  void qsort(double base[n], size_t n, size_t size, int (*compare)(const double *, const double *)); int toupper(int c); char *strcpy(char *to, const char *from); long strtol(const char *s, out char **end, int base); }
'
t='extern "" { struct point { double x, y; }; struct other { int a; }; }
'
# libraries and symbols
e 'extern "libnothere.so.1" int f(void);'
e 'extern "m" int f(void);'
e 'extern "libm.so" double cos(double x);'
e 'extern "/etc/hostname" int f(void);'
e 'extern "libm.so.6" double hypott(double x, double y);'
e 'extern "libz.so.1" header <zlibb.h>;'
e 'extern "libz.so.1" header zlib.h;'
e 'extern "libz.so.1" header <math.h>;'
e 'extern "libz.so.1" flag="-I." header <zlib.h>;'
# prototypes
e 'extern "libm.so.6" double hypot(double x double y);'
e 'extern "libm.so.6" double hypot(double x, dubble y);'
e 'extern "libm.so.6" hypot(double x, double y);'
e 'extern "libm.so.6" float hypot(float x, float y);'
e 'extern "libm.so.6" int long float f(void);'
e 'extern "libm.so.6" double hypot(double x, double y) { return x; }'
e 'extern "libm.so.6" {
  double hypot(double x, double y);
  static double cos(double x);
}'
e 'extern "libm.so.6" double f(double x[k], int n);'
e 'extern "libm.so.6" double modf(double x, out double whole);'
e 'extern "libm.so.6" double hypot(double x, /* y'
e 'extern "libm.so.6" void f(void x, int n);'
e 'extern "libm.so.6" struct { int a; int a; } f(void);'
e 'extern "libm.so.6" { struct s { int a; }; struct s { double a; }; }'
e 'extern "libc.so.6" { struct tm { int tm_sec; }; struct tm *gmtime(const time_t *t); }'
e "${m}"'extern "libm.so.6" double hypot(double x, double y);
extern "libm.so.6" int hypot(int x, int y);'
e 'extern "libdlcore.so.0.1" long dl_numel(const dl_tensor *t);
extern "libdlcore.so.0.1" int dl_numel(const dl_tensor *t);'
# counts, names and numbers
e "${m}hypot(3)"
e "${m}hypot(3, 4, 5)"
e "${m}hypot(3, z=4)"
e "${m}hypot(3, x=4)"
e "${m}"'hypot("3", 4)'
e "${m}hypot(tensor(3.0), 4)"
e "${m}hypot(9007199254740993, 4)"
e "${c}labs(2.0)"
e "${c}toupper(3000000000)"
e "${c}strlen(none)"
e "${c}strlen(NULL + 1)"
e "${c}strlen(5)"
e "${c}"'strlen("a\0b")'
e "${c}"'strcpy("abc", "def")'
# formats
e "${c}"'printf("%d\n", 2.5)'
e "${c}"'printf("%d %d\n", 1)'
e "${c}"'printf("%s\n", 1)'
e "${c}"'printf("%n", new("long"))'
e "${c}"'printf("%d\n", 5000000000)'
e "${c}"'printf("%y\n", 5)'
# tensors
e "${c}memset(zeros(3, dtype=f64), 0, 12)"
e "${c}memset(zeros(4, 4)[:, 0], 0, 12)"
e "${c}memset([1, 2, 3], 0, 12)"
e "${c}qsort(zeros(3, dtype=f64), 4, 8, fn (a, b) { return 0 })"
e "${c}"'w = param(zeros(3)); l = (w * w).sum()
memset(w, 0, 12)'
# callbacks
e "${c}x = zeros(3, dtype=f64)
qsort(x, 3, 8, 5)"
e "${c}x = zeros(3, dtype=f64)
qsort(x, 3, 8, labs)"
e "${c}x = zeros(3, dtype=f64)
qsort(x, 3, 8, fn (a) { return 0 })"
e "${c}x = zeros(3, dtype=f64)
qsort(x, 3, 8, fn (a, b) { return a[0] < nothing })"
e "${c}x = zeros(3, dtype=f64)
qsort(x, 3, 8, fn (a, b) { return none })"
e "${c}x = zeros(3, dtype=f64)
qsort(x, 3, 8, fn (a, b) { a[0] = 5; return 0 })"
# pointers and structs
e 'new("int[3]")[3]'
e 'cast("int *", 16)[0]'
e 'cast("int *", 16)[0] = 1'
e 'NULL[0]'
e 'new("nothing")'
e 'new("int[]")'
e 'new("struct unknown")'
e 'new("unsigned char", 256)'
e "${t}"'p = new("struct point")
p.z'
e "${t}"'p = new("struct point")
p.x = "1"'
e "${t}"'new("struct point", record(z=1))'
e "${t}"'new("struct point", [1, 2, 3])'
e 'cast("int *", 16).string()'
e 'len(cast("int *", 16))'
e 'C { int f(void) { return 1 }'
# what newcomers meet
e "${c}"'printf("%d\n")'
e 'extern libm.so.6 double cos(double x);'
e 'extern "libc.so.6" header <time.h>; time(NULL)'
e 'extern "libc.so.6" header <time.h>;
time(NULL)'
e 'extern "libz.so.1" header <zlib.h>;
z_stream'
e "${c}"'toupper("a")'
e 'extern "libc.so.6" struct tm *gmtime(const time_t *t);
gmtime(3)'
e 'extern "libc.so.6" struct tm *gmtime(const time_t *t);
gmtime(new("time_t")).tm_year'
e 'C { static int hidden(void) { return 1; } }'
