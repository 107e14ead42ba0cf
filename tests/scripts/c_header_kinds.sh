# A header with what real headers contain: guards, attributes, macros of all kinds, arrays and functions by typedefs, unions of
# bit-fields, formats.
command -v cc >/dev/null || exit 77
cat > nasty.h <<'END'
#ifndef NASTY_H
#define NASTY_H
#ifdef __cplusplus
extern "C" {
#endif
#define min(a,b) ((a)<(b)?(a):(b))
#define max(a,b) ((a)>(b)?(a):(b))
#define errno_t int
#define private static
#define int32 int
#define linux_is linux
#define I 5
#define unix_x unix
#define double_it(x) (x)*2
#define PI 3.14159
#define E 2.718
#define true_ 1
#define BEGIN {
#define API __attribute__((visibility("default")))
#define NOTHROW __attribute__((__nothrow__))
#define DEPRECATED __attribute__((deprecated("use other")))
#define CONCAT_FN(n) nasty_##n
#define VERSION "1.2" ".3"
#define VERNUM 0x010203UL
#define FLAGS (1u<<31)
#define NEG (-1)
#define CH 'x'
#define WCH L'x'
#define STR8 u8"abc"
#define LSTR L"abc"
#define BIG 18446744073709551615ULL
#define FLT 1.5f
#define LD 1.5L
#define HEXF 0x1p-3
#define SELF SELF
#define A_ B_
#define B_ A_
#define FNLIKE() 42
#define EMPTYP
#define CASTED ((unsigned char)300)
#define PTR ((char*)0)
#define FP ((int(*)(int))0)
#define STRUCTLIT ((struct pt){1,2})
#define ARR ((int[]){1,2,3})
#define SZ sizeof(struct pt)
#define OFFS offsetof(struct pt, y)
#define STMT ({ int q = 3; q * 2; })
#define TERN (1 ? 2 : 3)
#define COMMA (1, 2)
#define UNDEFD (UNKNOWN_THING + 1)
#define GENERIC(x) _Generic((x), int: 1, double: 2, char *: 3, default: 4)
#include <stddef.h>
struct pt { int x, y; };
typedef struct pt pt, *ptp, pta[3];
typedef int (*cmpfn)(const void *, const void *);
typedef cmpfn cmptab[4];
API int nasty_add(int a, int b) NOTHROW;
DEPRECATED int nasty_old(int a);
extern int (*nasty_hook)(int);
extern const pta nasty_pts;
extern cmptab nasty_tab;
API cmpfn nasty_get(int i);
static inline int nasty_inl(int a) { return a + 1; }
static inline pt nasty_mk(int a) { return (pt){a, a}; }
static inline double nasty_va(int n, ...) { __builtin_va_list ap; __builtin_va_start(ap, n); double s = 0; while (n--) s += __builtin_va_arg(ap, double); __builtin_va_end(ap); return s; }
enum { E_A = 1, E_B = E_A << 4, E_C = sizeof(int), E_D = 'a', E_E = -E_B };
enum nasty_e { NE_X = 0x80000000, NE_Y };
typedef enum nasty_e nasty_e;
API nasty_e nasty_en(nasty_e e);
struct fwd; typedef struct fwd fwd_t; API fwd_t *nasty_fwd(void); API int nasty_fwdx(const fwd_t *f);
typedef union { struct { unsigned lo : 4, hi : 4; }; unsigned char byte; } nib;
API nib nasty_nib(nib n);
API void nasty_out(int n, int out, int in[], int keep, int owned);
API int nasty_arr(int m[2][3], const int (*p)[3], int n);
API int printf_like(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
_Static_assert(sizeof(int) == 4, "x");
API long double nasty_ld(long double x);
API void nasty_reg(void (*cb)(int kind, void *user), void *user);
API _Bool nasty_b(_Bool b);
#ifdef __cplusplus
}
#endif
#endif
END
cat > nasty.c <<'END'
#include "nasty.h"
#include <stdio.h>
#include <stdarg.h>
int nasty_add(int a, int b) { return a + b; }
int nasty_old(int a) { return a; }
static int hk(int a) { return a * 10; } int (*nasty_hook)(int) = hk;
const pta nasty_pts = {{1,2},{3,4},{5,6}};
static int cmp(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
cmptab nasty_tab = {cmp, 0, cmp};
cmpfn nasty_get(int i) { return nasty_tab[i]; }
nasty_e nasty_en(nasty_e e) { return e; }
struct fwd { int v; } fw = {77}; fwd_t *nasty_fwd(void) { return &fw; } int nasty_fwdx(const fwd_t *f) { return f->v; }
nib nasty_nib(nib n) { nib r = n; r.hi = n.lo; r.lo = n.hi; return r; }
void nasty_out(int n, int out, int in[], int keep, int owned) { in[0] = n + out + keep + owned; }
int nasty_arr(int m[2][3], const int (*p)[3], int n) { return m[1][2] + p[n][0]; }
int printf_like(const char *fmt, ...) { va_list ap; va_start(ap, fmt); int r = vprintf(fmt, ap); va_end(ap); return r; }
long double nasty_ld(long double x) { return x / 3; }
void nasty_reg(void (*cb)(int, void *), void *u) { cb(3, u); }
_Bool nasty_b(_Bool b) { return !b; }
END
cc -shared -fPIC -w -o libnasty.so nasty.c || exit 1
cat > use.dlsh <<'END'
extern "./libnasty.so" flags="-I." header "nasty.h";
C.min(3, 4); C.max(3, 4.5)
double_it(4)
I
C.I
C.E
PI
VERSION
[VERNUM, FLAGS, NEG, CH, WCH, BIG, FLT, LD, HEXF, CASTED, SZ, OFFS, TERN, COMMA]
STR8
PTR
FP
STRUCTLIT
ARR
STMT
SELF
A_
FNLIKE()
EMPTYP
BEGIN
UNDEFD
GENERIC(1)
GENERIC(1.5)
GENERIC("s")
nasty_add(1, 2)
nasty_old(3)
nasty_hook(4)
nasty_pts[1].y
len(nasty_pts)
nasty_tab[0](new("int", 3), new("int", 1))
nasty_tab[1]
nasty_get(2)(new("int", 3), new("int", 1))
nasty_inl(4)
nasty_mk(5)
nasty_va(2, 1.5, 2)
nasty_va(2, 1.5, 2.0)
[E_A, E_B, E_C, E_D, E_E]
[NE_X, NE_Y]
nasty_en(NE_Y) == NE_Y
f = nasty_fwd(); nasty_fwdx(f)
f.v
f[0]
n = new("nib"); n.lo = 3; n.hi = 5; n.byte
nasty_nib(n[0]).byte
nasty_nib([[1, 2]])
nasty_nib(record(byte=33)).lo
x = new("int[1]"); nasty_out(1, 2, x, 3, 4); x[0]
nasty_arr(new("int[2][3]", [[1,2,3],[4,5,6]]), new("int[1][3]", [[7,8,9]]), 0)
nasty_arr(tensor([[1,2,3],[4,5,6]], dtype=i32), tensor([[7,8,9]], dtype=i32), 0)
printf_like("%d\n", 5)
printf_like("%d\n", 5.5)
nasty_ld(1)
nasty_reg(fn (k, u) { print(k, u) }, NULL)
nasty_reg(fn (k, u) { print(k, cast("int *", u)[0]) }, new("int", 9))
nasty_b(true)
pt
sizeof("cmptab")
help nasty_add
help VERSION
help pt
help nasty_inl
CONCAT_FN("add")(2, 3)
printf_like("%d\n", 5.5)
printf_like("%s %s\n", "a")
nasty_nib([[1, 2]])
nasty_nib([[1, 2, 3]])
nasty_nib([[1, 2], 5])
nasty_nib([[16, 2]])
C { struct bits { unsigned a : 3; int : 5; long b : 40; char c; }; long sumb(struct bits v) { return v.a + v.b + v.c; }
 #include <stdarg.h>
 #include <stdio.h>
 __attribute__((format(printf, 2, 3))) int logit(int level, const char *fmt, ...) { va_list ap; va_start(ap, fmt); printf("%d: ", level); int r = vprintf(fmt, ap); va_end(ap); return r; } }
sumb([1, -5, 100])
sumb([1, -5, 100, 3])
logit(3, "%d %s\n", 5, "x")
logit(3, "%d %s\n", 5, 6)
new("struct bits", [7, 1 << 38, 1])[0]
new("struct bits[2]", [[1, 2, 3], record(c=5)])[1]
logit(4, "%d\n", 6)
END
dlsh -n --db none -k use.dlsh 2>&1
true
