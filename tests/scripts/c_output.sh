# Output of C appears in order with the shell's: through stdio, past it, and on standard error, also in a loop and a callback.
cat > order.dlsh <<'END'
extern "libc.so.6" {
    int printf(const char *format, ...);
    int puts(const char *s);
    long write(int fd, const void *bytes, size_t n);
    int fputs(const char *s, FILE *to);
    FILE *stderr;
    void qsort(int x[n], size_t n, size_t size, int (*compare)(const int *a, const int *b));
}
print("1 shell")
printf("2 %s\n", "C")
write(1, "3 C, past stdio\n", 16);
print("4 shell")
fputs("5 C, standard error\n", stderr)
for i in range(2) { print(6 + 2 * i, "shell"); printf("%d C\n", 7 + 2 * i) }
qsort(new("int[]", [2, 1]), 2, 4, fn (a, b) { print("10 shell, called by C"); printf("11 C\n"); return a[0] - b[0] })
puts("12 C")
"13 shell"
n = printf("14 C\n")
n
nothing
END
dlsh -n --db none order.dlsh 2>&1 | cat
dlsh -n --db none -c 'extern "libc.so.6" int printf(const char *f, ...);
printf("%d", 7)'
echo
