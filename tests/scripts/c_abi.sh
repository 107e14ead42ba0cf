# Every kind of argument and result, through a library made by the same compiler: values must arrive whole.
cc=${DLSH_CC:-cc}
cat > abi.h <<'END'
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
struct f2 { float x, y; };
struct f3 { float x, y, z; };
struct d1i { double d; int i; };
struct big { long a[5]; };
struct c3 { char c[3]; };
struct nest { struct f2 a; short s; struct c3 c; struct { int in; } u; };
struct bits { unsigned a : 3; int b : 13; long c : 40; };
struct __attribute__((packed)) tight { char c; int i; };
union mix { float f; int i; double d; };
union floats { float a; float b[2]; };
enum level { LOW = -2, HIGH = 7 };
struct f2 add_f2(struct f2 a, struct f2 b);
struct f3 scale_f3(struct f3 v, float k);
struct d1i swap_d1i(struct d1i v);
struct big backwards(struct big v);
long sum_c3(struct c3 v);
double sum_nest(struct nest v, int k, struct d1i d);
void make_nest(struct nest *v, short s);
long sum_bits(struct bits v);
int sum_tight(const struct tight *v);
union mix mix_of(double d);
float sum_floats(union floats u);
enum level opposite(enum level l);
long double third(long double x, int n);
bool negate(bool b);
signed char minus_s(signed char c);
unsigned char plus_u(unsigned char c);
short minus_h(short h);
unsigned short plus_h(unsigned short h);
unsigned plus_i(unsigned i);
uint64_t top_bit(int set);
int64_t most(void);
float half_f(float f);
float _Complex turn(float _Complex z, int n);
double _Complex mix_z(double a, double _Complex z, int n, float _Complex w, double b);
double apply_z(double _Complex (*f)(double _Complex z, int n), int n);
void conj_all(double _Complex *z, int n);
char next_char(char c);
double many(int a, double b, char c, float d, long e, double f, short g, float h, int i, double j, long k, double l, int m, double n, float o);
double sum_d(int n, ...);
long sum_l(int n, ...);
const char *joined(int n, ...);
double apply(struct f2 (*f)(struct f2 v, double k), struct f2 v);
long count_down(long n, long (*each)(long n, const char *name, bool last));
int fill(int n, float x[], int32_t *rest);
double norm(int rows, int cols, const double *x);
int *middle(int *p, int n);
void (*chosen(int i))(int *);
extern int counter;
extern const double table[3];
END
cat > abi.c <<'END'
#include "abi.h"
#include <stdio.h>
struct f2 add_f2(struct f2 a, struct f2 b) { return (struct f2){a.x + b.x, a.y + b.y}; }
struct f3 scale_f3(struct f3 v, float k) { return (struct f3){v.x * k, v.y * k, v.z * k}; }
struct d1i swap_d1i(struct d1i v) { return (struct d1i){v.i, (int)v.d}; }
struct big backwards(struct big v) { struct big r; for (int i = 0; i < 5; i++) r.a[i] = v.a[4 - i]; return r; }
long sum_c3(struct c3 v) { return v.c[0] + 100 * v.c[1] + 10000 * v.c[2]; }
double sum_nest(struct nest v, int k, struct d1i d) { return v.a.x + v.a.y + v.s + v.c.c[0] + v.c.c[1] + v.c.c[2] + v.u.in + k + d.d + d.i; }
void make_nest(struct nest *v, short s) { *v = (struct nest){{1.5f, 2.5f}, s, {{1, 2, 3}}, {9}}; }
long sum_bits(struct bits v) { return v.a + v.b + v.c; }
int sum_tight(const struct tight *v) { return v->c + v->i; }
union mix mix_of(double d) { return (union mix){.d = d}; }
float sum_floats(union floats u) { return u.b[0] + u.b[1]; }
enum level opposite(enum level l) { return l == LOW ? HIGH : LOW; }
long double third(long double x, int n) { return x / 3 + n; }
bool negate(bool b) { return !b; }
signed char minus_s(signed char c) { return (signed char)-c; }
unsigned char plus_u(unsigned char c) { return (unsigned char)(c + 1); }
short minus_h(short h) { return (short)-h; }
unsigned short plus_h(unsigned short h) { return (unsigned short)(h + 1); }
unsigned plus_i(unsigned i) { return i + 1; }
uint64_t top_bit(int set) { return set ? 1ull << 63 : 1ull << 62; }
int64_t most(void) { return INT64_MAX; }
float half_f(float f) { return f / 2; }
float _Complex turn(float _Complex z, int n) { while (n--) z *= 1.0fi; return z; }
double _Complex mix_z(double a, double _Complex z, int n, float _Complex w, double b) { return a + z * n + w * b; }
double apply_z(double _Complex (*f)(double _Complex z, int n), int n) { double _Complex r = f(1.0 + 2.0i, n); return __real__ r * 10 + __imag__ r; }
void conj_all(double _Complex *z, int n) { while (n--) z[n] = ~z[n]; }
char next_char(char c) { return (char)(c + 1); }
double many(int a, double b, char c, float d, long e, double f, short g, float h, int i, double j, long k, double l, int m, double n, float o) {
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j + 11 * k + 12 * l + 13 * m + 14 * n + 15 * o;
}
double sum_d(int n, ...) { va_list ap; double s = 0; va_start(ap, n); while (n--) s += va_arg(ap, double); va_end(ap); return s; }
long sum_l(int n, ...) { va_list ap; long s = 0; va_start(ap, n); while (n--) s += va_arg(ap, long); va_end(ap); return s; }
const char *joined(int n, ...) {
    static char text[100]; int at = 0; va_list ap; va_start(ap, n);
    while (n--) at += snprintf(text + at, sizeof text - at, "%s;", va_arg(ap, const char *));
    va_end(ap); return text;
}
double apply(struct f2 (*f)(struct f2 v, double k), struct f2 v) { struct f2 r = f(v, 10); return r.x + 1000 * r.y; }
long count_down(long n, long (*each)(long n, const char *name, bool last)) { long s = 0; for (; n > 0; n--) s += each(n, n & 1 ? "odd" : "even", n == 1); return s; }
int fill(int n, float x[], int32_t *rest) { for (int i = 0; i < n; i++) x[i] = i / 2.0f; *rest = -n; return n * 2; }
double norm(int rows, int cols, const double *x) { double s = 0; for (int i = 0; i < rows * cols; i++) s += x[i] * x[i]; return s; }
int *middle(int *p, int n) { return p + n / 2; }
static void inc(int *p) { ++*p; }
static void dec(int *p) { --*p; }
void (*chosen(int i))(int *) { return i ? inc : dec; }
int counter = 40;
const double table[3] = {0.5, 1.5, 2.5};
END
$cc -shared -fPIC -o libabi.so abi.c || exit 1
cat > script.dlsh <<'END'
a = add_f2([1, 2], record(x=0.5, y=0.25)); assert a.x == 1.5 && a.y == 2.25
b = scale_f3([1, 2, 3], 2); assert [b.x, b.y, b.z] == [2.0, 4.0, 6.0]
c = swap_d1i([7.0, 3]); assert c.d == 3.0 && c.i == 7
d = backwards(record(a=[1, 2, 3, 4, 5])); assert d.a.list() == [5, 4, 3, 2, 1]
assert sum_c3([[1, -2, 3]]) == 29801
n = new("struct nest"); make_nest(n, -7)
assert n.s == -7 && n.c.c.list() == [1, 2, 3] && n.u.in == 9
assert sum_nest(n[0], 100, [0.5, 3]) == 1.5 + 2.5 - 7 + 6 + 9 + 100 + 3.5
assert sum_bits(record(a=5, b=-4000, c=1 << 38)) == 5 - 4000 + (1 << 38)
assert sizeof("struct tight") == 5 && sum_tight(new("struct tight", record(c=1, i=2000))) == 2001
assert mix_of(2.5).d == 2.5
assert sum_floats(record(b=[1.5, 2])) == 3.5
assert opposite(LOW) == HIGH && opposite(7) == -2
assert abs(third(1.0, 2) - 2.3333333333333335) < 1e-15
assert negate(true) == false && negate(0) == true
assert minus_s(-128) == -128 && minus_s(5) == -5 && plus_u(255) == 0 && plus_u(9) == 10
assert minus_h(32767) == -32767 && plus_h(65535) == 0 && plus_i(4294967294) == 4294967295
assert top_bit(0) == 1 << 62 && most() == 9223372036854775807
t = top_bit(1); assert t.bits == -9223372036854775807 - 1 && t.float == 2.0 ** 63 && t == top_bit(1)
z = turn([1, 2], 3); assert z.re == 2 && z.im == -1
z = mix_z(1, [2, 3], 2, [0.5, -1], 4); assert z.re == 7 && z.im == 2
assert mix_z(1, 2, 3, 4, 5).re == 27
assert apply_z(fn (z, n) { return [z.im * n, z.re] }, 3) == 61
x = tensor([[1, 2], [3, 4]], dtype=f64); conj_all(x, 2); assert x[1, 1].item() == -4 && x[0, 0].item() == 1
assert half_f(3) == 1.5 && next_char('a') == 98
assert many(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) == 1240
assert sum_d(3, 1.5, 2.5, 3.0) == 7.0 && sum_l(3, 1, -2, 1 << 40) == (1 << 40) - 1
assert joined(2, "a", "b") == "a;b;"
assert apply(fn (v, k) { return [v.x * k, v.y] }, [3, 4]) == 4030
seen = []
assert count_down(3, fn (n, name, last) { seen.append([n, name, last]); return n }) == 6
assert seen == [[3, "odd", false], [2, "even", false], [1, "odd", true]]
p = new("int[]", [1, 2, 3, 4]); assert middle(p, 4)[0] == 3
chosen(1)(p); assert p[0] == 2
chosen(0)(p); chosen(0)(p); assert p[0] == 0
counter[0] += 2; assert counter[0] == 42
assert table.list() == [0.5, 1.5, 2.5]
print("as they are")
END
{ echo 'extern "./libabi.so" header "abi.h";'; cat script.dlsh; } >imported.dlsh
{ echo 'extern "./libabi.so" {'; grep -v '^#' abi.h | sed 's/ __attribute__((packed))/ __attribute__((packed))/'; echo '}'; grep -v tight script.dlsh; } >written.dlsh
export CPATH=.
for f in imported written; do echo "$f"; dlsh -n --db none $f.dlsh 2>&1; done
cat >contracts.dlsh <<'END'
extern "./libabi.so" {
    int fill(int n, out float x[n], out int32_t *rest);
    double norm(int rows, int cols, const double x[rows][cols]);
}
fill(3)
norm(2, 2, tensor([[1, 2], [3, 4]], dtype=f64))
norm(2, 3, tensor([[1, 2], [3, 4]], dtype=f64))
END
dlsh -n --db none contracts.dlsh 2>&1
