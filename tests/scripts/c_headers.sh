# What a header says beside prototypes: macros that are constants of all kinds, inline functions, macros with parameters.
command -v cc >/dev/null || exit 77
export XDG_CACHE_HOME=$PWD/cache
cat > own.h <<'END'
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#define RATIO (2.0 / 3)
#define HALF 0.5f
#define LETTER 'A'
#define TEXT "two" "\tparts"
#define NOTHING
#define EVIL_CLOSE )
#define EVIL_BRACE }
#define USES_EVIL (1 EVIL_CLOSE)
#define LOOP for (;;)
#define MISSING (no_such_thing + 1)
#define MISSING_TOO (no_such_thing + 2)
#define BYTE unsigned char
#define NEGATIVE ((signed char)200)
#define LATER (FIRST << 2)
#define FIRST 3u
#define EVERYTHING ((void *)-1)
#define HANDLER ((void (*)(int))1)
#define WHERE (&where)
#define SIZES sizeof(struct pair)
#define GONE 1
#undef GONE
#define ABSOLUTE labs
#define SQUARE(x) ((x) * (x))
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define SWAP(a, b) do { double *p_ = (a), *q_ = (b), t_ = *p_; *p_ = *q_; *q_ = t_; } while (0)
#define FORMAT(s, ...) snprintf(s, 40, __VA_ARGS__)
#define GLUE(a, b) a##b
#define FIELD(type, f) offsetof(type, f)
#define NAME_OF(p) ((p)->name)
#define TWICE SQUARE
#define NOW() (ticks)
enum level { LOW = -2, HIGH = 7 };
#define LEVEL HIGH
struct pair { double a, b; const char *name; };
static int where = 5, ticks = 9;
static const double golden = 1.618;
static inline double first(const struct pair *p) { return p->a; }
static inline struct pair swapped(struct pair p) { return (struct pair){p.b, p.a, p.name}; }
static inline int crash(int *p) {
    return *p;
}
typedef float _Complex pairs;
struct __attribute__((packed)) report { char kind; union { struct { int sender; } kill; double more; } of; };
#define sender of.kill.sender
int labs(long n);
int not_there(int n);
END
cat > use.dlsh <<'END'
extern "libc.so.6" flags="-I." header "own.h";
[INT_MAX, INT_MIN, UINT_MAX, LONG_MAX, CHAR_BIT]
[UINT64_MAX, SIZE_MAX == UINT64_MAX, INT64_MIN < 0]
[RATIO, HALF, LETTER, NEGATIVE, LATER, LEVEL]
TEXT
[EVERYTHING, HANDLER, SIZES]
WHERE[0]
golden
SQUARE(3)
SQUARE(1.5)
LARGER(2, 2.5)
[TWICE(7), ABSOLUTE(-7), NOW()]
x = tensor([1.0, 2.0], dtype=f64)
SWAP(cast("double *", x), cast("double *", x).offset(1))
x
s = new("char[40]")
FORMAT(s, "%d-%s", 5, "five")
s.string()
p = new("struct pair", record(a=1, b=2, name="pair"))
NAME_OF(p)
first(p)
swapped(p[0]).a
first
SQUARE
r = new("struct report"); r.of.kill.sender = 7
[sizeof("struct report"), cast("char *", r).list(6)]
sizeof("pairs")
help SQUARE
help first
n = 0; for i in range(2000) { n += LARGER(i, 5) }
n
LARGER(1999, 5)
END
for cc in cc clang tcc; do
    command -v $cc >/dev/null || continue
    for time in first again; do DLSH_CC=$cc dlsh -n --db none use.dlsh > $cc.$time 2>&1; done
done
cat cc.first
for f in cc.again clang.first clang.again tcc.first tcc.again; do [ ! -f $f ] || cmp cc.first $f || diff cc.first $f; done

try() { dlsh -n --db none -c "extern \"libc.so.6\" flags=\"-I.\" header \"own.h\";
$1" 2>&1; }
for wrong in NOTHING USES_EVIL LOOP MISSING MISSING_TOO BYTE GONE 'GLUE(1, 2)' 'FIELD(1, 2)' 'SQUARE("text")' 'SQUARE(1, 2)' \
    'SQUARE(x=1)' 'SQUARE([1])' 'NAME_OF(3)' 'not_there(1)' 'swapped(1)' 'crash(NULL)' 'LARGER = 3; LARGER'; do
    echo "--- $wrong"
    try "$wrong"
done

# macros that make words or text of their arguments, and those that want types and fields
cat > text.h <<'END'
#include <stddef.h>
#include <stdint.h>
#define GLUE(a, b) a##b
#define STR(x) #x
#define XSTR(x) STR(x)
#define OUTER(x) UINT64_C(x)
#define NUMBER(x) 1##x
#define CHECK(x) ((x) ? 0 : (int)sizeof(#x))
#define CAST(T, x) ((T)(x))
struct pair { int a; double b; };
static int ab = 42;
END
cat > text.dlsh <<'END'
extern "" flags="-I." header "text.h";
[UINT64_C(5), INT64_C(-5), INT32_C(7), UINTMAX_C(3), OUTER(8)]
UINT64_C("18446744073709551615")
[GLUE("a", "b"), GLUE(1, 2), NUMBER(5)]
[STR("foo"), STR(5), XSTR(5), STR(1.5)]
[offsetof("struct pair", "b"), CHECK(0), CHECK(new("int")), CAST("short", 70000)]
n = 0; for i in range(3) { n += UINT64_C(i) }
n
UINT64_C("abc")
UINT64_C(1.5)
UINT64_C(new("int"))
STR(new("int"))
GLUE("no", "thing")
END
dlsh -n --db none -k text.dlsh 2>&1
true
