/* Functions of the language in captured steps: which are pure, that what they use is watched, and that a capture ends
 * in the bits of steps op by op. On a device made of the host's memory, whose graphs are lists of calls. */
#include "support/fake_device.h"

#include <stdlib.h>
#include <string.h>

#include "commands/families.h"
#include "commands/nets/nets.h"

static dlsh_buf told;
static void keep_text(dlsh_sink *s, const char *b, size_t n) { (void)s, dlsh_buf_add(&told, b, n); }
static dl_status no_value(dlsh_sink *s, dlsh_value v) { return (void)s, (void)v, DL_OK; }
static dl_status no_table(dlsh_sink *s, const dlsh_table *t) { return (void)s, (void)t, DL_OK; }
static void keep_error(dlsh_sink *s, const dlsh_diag *d) {
    (void)s;
    fprintf(stderr, "%s:%d:%d: %s (%s)\n", d->file, d->line, d->col, d->message, d->hint ? d->hint : "");
}
static void no_flush(dlsh_sink *s) { (void)s; }
static const dlsh_sink_ops ops = {
    .text = keep_text, .value = no_value, .table = no_table, .error = keep_error, .flush = no_flush};
static dlsh_sink sink = {&ops};

static dlsh_session *open_session(void) {
    dlsh_services services = {0};
    dlsh_nets_serve(&services);
    dlsh_session *s = dlsh_session_new(&sink, &services);
    assert_non_null(s);
    ok(dlsh_add_families(s));
    return s;
}

static void run(dlsh_session *s, const char *text) {
    if (dlsh_run(s, "t", text, strlen(text), NULL) == DL_OK) return;
    dlsh_report_error(s);
    fail_msg("%s", text);
}

static const char data[] = "seed 5\n"
                           "x = randn(96, 6); y = randint(0, 3, [96])\n"
                           "d = dataset(x, y)\n"
                           "made = 0\n"; /* what the functions have done besides, after 12 steps */

/* The trainer in variable t. */
static dl_trainer *trainer_of(dlsh_session *s) {
    const dlsh_value *v = dlsh_get(s, "t");
    dl_trainer *t = v ? dlsh_unwrap(*v, &dlsh_trainer_class) : NULL;
    assert_non_null(t);
    return t;
}

/* Runs a program that defines a net and, perhaps, `how`, options of its trainer; then 12 steps, with capture or not.
 * The rest of the program comes then, and 12 more. Returns the capture's state; the sum over all weights goes to *sum.
 */
static char *train(const char *program, const char *how, const char *then, int capture, double *sum) {
    static char state[256];
    char text[2000];
    dlsh_session *s = open_session();
    dl_capture_set(capture);
    run(s, data);
    run(s, program);
    snprintf(text, sizeof text, "t = trainer(m, d, opt=adam(lr=0.01), batch=32%s)\nstep t 12\n%s\nstep t 12", how,
             then);
    run(s, text);
    snprintf(state, sizeof state, "%s", dl_trainer_capture(trainer_of(s)));
    run(s, "total = 1.0 * made; for p in m.parameters() { total += (p.cpu() * 1000).sin().sum().item() }");
    *sum = dlsh_number(*dlsh_get(s, "total"));
    dl_capture_set(1);
    dlsh_session_free(s);
    return state;
}

typedef struct program {
    const char *net, *how, *then;
    const char *want; /* state of the capture, or a part of it; NULL: captured */
} program;

static void check(const program *p) {
    const char *want = p->want ? p->want : "captured";
    double graphs, eager;
    train(p->net, p->how ? p->how : "", p->then ? p->then : "", 0, &eager);
    long before = fake.replays;
    const char *state = train(p->net, p->how ? p->how : "", p->then ? p->then : "", 1, &graphs);
    if (!strstr(state, want)) fail_msg("'%s' instead of '%s': %s", state, want, p->net);
    if (graphs != eager) fail_msg("%.17g instead of %.17g: %s", graphs, eager, p->net);
    if (!p->want && fake.replays == before) fail_msg("nothing was replayed: %s", p->net);
}

#define NET(forward) "net m { a: linear 8; c: linear 3\n" forward "}"
#define NET3(forward) "net m { a: linear 8; b: linear 8; c: linear 3\n" forward "}"
#define PLAIN NET("forward(x) { return c(relu(a(x))) }")

static void pure_functions_are_captured(void **state) {
    (void)state;
    static const program p[] = {
        {.net = PLAIN},
        {.net = NET3("forward(x, k=2) { h = relu(a(x)); for i in range(k) { h = h + b(h).tanh() }; return c(h) }")},
        {.net = NET3("forward(x) { hs = []; h = a(x); for i in range(3) { h = relu(b(h)); hs.append(h) }; return "
                     "c(stack(hs).sum(0)) }")},
        {.net =
             NET("forward(x) { r = {h: a(x)}; r.h = relu(r.h); z = zeros_like(r.h); z[:, 0] = 1; return c(r.h + z) }")},
        {.net = "net m { blocks: list 2 { linear 6 }; out: linear 3; buffer n [1]\n"
                "forward(x) { for f in blocks { x = relu(f(x)) }; no_grad { n.add_(1); }; return out(x) * (1 + 0.01 * "
                "n) } }"},
        {.net = "scale = 2.0; fn act(v) { return v.relu() * scale }\n" NET("forward(x) { return c(act(a(x))) }")},
        {.net = "config = {k: [1, 2], drop: 0.1}\n" NET3(
             "forward(x) { h = a(x); for i in config.k { h = b(dropout(h, config.drop)) + i }; return c(h) }")},
        {.net = "fn twice(f) { return fn (v) { return f(f(v)) } }\nrelus = twice(relu)\n" NET(
             "forward(x) { return c(relus(a(x))) }")},
        /* a transformer that gives its cache back, as examples/gpt.dlsh does; in training there is none */
        {.net = "net block(w) { attn: linear (3 * w); proj: linear w\n"
                "forward(x, past=none) { q, k, v = attn(x).view(x.shape[0], 3, -1).permute(1, 0, 2)\n"
                "if past { k, v = cat([past.k, k], 0), cat([past.v, v], 0) }\nx = x + proj(softmax(q @ k.T, -1) @ v)\n"
                "return past == none ? x : [x, {k: k, v: v}] } }\n"
                "net m { h: list 2 { block 6 }; c: linear 3\nforward(x, past=none) { cached = []\n"
                "for i, b in enumerate(h) { if past == none { x = b(x) } else { x, kv = b(x, past[i]); "
                "cached.append(kv) } }\nreturn past == none ? c(x) : [c(x), cached] } }"},
        {.net = PLAIN, .how = ", loss=fn (out, y) { return cross_entropy(out, y) + 0.01 * (out ** 2).mean() }"},
        {.net = PLAIN "; fn own(out, y) { l = cross_entropy(out, y); for p in m.parameters() { l = l + 1e-3 * p.norm() "
                      "}; return l }",
         .how = ", loss=own"},
        {.net = NET("forward(x) { h = a(x); return c(dropout(h + randn_like(h), 0.2)) }")},
        {.net = "d = dataset(fn (i) { return [randn(6, device=\"cpu\"), i % 3] }, n=96, classes=3)\n" NET(
             "forward(x) { h = a(x); return c(dropout(h + randn_like(h), 0.2)) }")},
        {.net = "d = dataset({a: x, b: randn(96, 6), y: y}, targets=\"y\", classes=3)\n"
                "net m { enc: linear 8; c: linear 3\nforward(a, b) { return c((enc(a) - enc(b)).relu()) } }"},
        {.net = "fn act(v) { return v.relu() }\nnet m { linear 8 -> act -> linear 3 }"},
        {.net = PLAIN,
         .then = "big = 1e9; dbg { break norm(a.weight.grad) > big | dead(c) > 2; break isnan(loss); "
                 "watch m.*.grad when=nan }"},
        {.net = "net m { a: linear 8; relu; batchnorm; c: linear 3 }", .then = "dbg { break relu0.mean() > 1e9 }"},
        {.net = "teacher = net { linear 8 -> relu -> linear 3 }; teacher.build([6]); "
                "teacher.requires_grad_(false); teacher.eval()\n" NET(
                    "forward(x) { return c(relu(a(x))) + 0.1 * teacher(x) }")},
    };
    for (size_t i = 0; i < sizeof p / sizeof *p; i++) check(&p[i]);
}

/* A schedule is a function of the language that runs on the host: once a step. */
static void schedules_are_asked_once_a_step(void **state) {
    (void)state;
    check(&(program){.net = "log = []; fn rate(step) { log.append(step); return 1 / (1 + len(log)) }\n" PLAIN,
                     .how = ", schedule=rate",
                     .then = "made = len(log)"});
}

/* Changes between steps are detected: a new graph is captured. */
static void what_they_use_is_watched(void **state) {
    (void)state;
    static const program p[] = {
        {.net = "scale = 2.0\n" NET("forward(x) { return c(relu(a(x)) * scale) }"), .then = "scale = -1.5"},
        {.net =
             "config = {k: [1, 2]}\n" NET3("forward(x) { h = a(x); for i in config.k { h = b(h) + i }; return c(h) }"),
         .then = "config.k.append(3)"},
        {.net = "fn act(v) { return v.relu() }\n" NET("forward(x) { return c(act(a(x))) }"),
         .then = "fn act(v) { return v.tanh() }"},
        {.net = "fn make() { n = [1.0]; return [fn (v) { return v * n[0] }, fn (v) { n[0] = v }] }\npair = make(); f = "
                "pair[0]; set_n = pair[1]\n" NET("forward(x) { return c(f(a(x))) }"),
         .then = "set_n(3.0)"},
        {.net = "w = ones(8, device=\"cuda\")\n" NET("forward(x) { return c(a(x) * w) }"),
         .then = "no_grad { w[0] = 5; }"},
        {.net = "w = ones(8, device=\"cuda\")\n" NET("forward(x) { return c(a(x) * w) }"), .then = "w = 2 * w"},
        {.net = "fn l(out, y) { return cross_entropy(out, y) }\n" PLAIN,
         .how = ", loss=fn (out, y) { return l(out, y) }",
         .then = "fn l(out, y) { return 2 * cross_entropy(out, y) }"},
        {.net = "net m { a: linear 8; d: dropout 0.1; c: linear 3 }", .then = "m.d = (net { dropout 0.8 })[0]"},
        {.net = "net m { a: linear 8; d: leaky_relu 0.1; c: linear 3\nforward(x) { return c(d(a(x))) } }",
         .then = "m.d = (net { leaky_relu 0.9 })[0]"},
        {.net = NET("forward(x) { return c(a(x)) * (m.training ? 1.0 : 0.5) }"), .then = "m.eval()"},
        {.net = "fn sub(x) { return m.c(x) }\n" NET("forward(x) { return sub(m.a(x)) + 0 * c(a(x)) }")},
    };
    for (size_t i = 0; i < sizeof p / sizeof *p; i++) check(&p[i]);
}

static void others_run_op_by_op(void **state) {
    (void)state;
    static const program p[] = {
        {.net = NET("forward(x) { print(\"\"); return c(a(x)) }"), .want = "forward (t:2) uses print"},
        {.net = NET("forward(x) { show x; return c(a(x)) }"), .want = "runs the command show"},
        {.net = "log = []\n" NET("forward(x) { log.append(1); return c(a(x)) }"),
         .then = "made = len(log)",
         .want = "changes 'log', which may live longer than the call"},
        {.net =
             "log = []\nfn keep(v) { xs = log; xs.append(1); return v }\n" NET("forward(x) { return c(keep(a(x))) }"),
         .then = "made = len(log)",
         .want = "keep (t:2) changes 'xs'"},
        {.net = "log = {n: 0}\n" NET("forward(x) { log.n += 1; return c(a(x)) }"),
         .then = "made = log.n",
         .want = "changes 'log'"},
        {.net = "log = []\n" NET("forward(x) { push = log.append; push(1); return c(a(x)) }"),
         .then = "made = len(log)",
         .want = "takes 'append'"},
        {.net = NET("forward(x) { return c(a(x)) * (time() > 0 ? 1 : 2) }"), .want = "uses time"},
        {.net = NET3("forward(x) { h = a(x); if h.sum() > 0 { h = b(h) }; return c(h) }"), .want = "reading"},
        {.net = NET("forward(x) { return c(a(x) + 0.1 * randn(8, device=\"cpu\").mean().item()) }"),
         .want = "random numbers on the CPU"},
        {.net = "w = zeros(1, device=\"cuda\")\n" NET("forward(x) { no_grad { w.add_(1); }; return c(a(x)) + w }"),
         .then = "made = w.item()",
         .want = "writes to a tensor that is not part of the net"},
        {.net = "fn count(k=[0]) { k[0] += 1; return k[0] }\n" NET("forward(x) { return c(a(x)) * count() }"),
         .want = "count (t:1) changes 'k'"},
        {.net = "big = list(range(5000))\n" NET("forward(x) { return c(a(x)) * big[1] }"),
         .want = "more than 4096 values"},
        {.net = "log = []\n" NET("forward(x) { push = append; push(log, 1); return c(a(x)) }"),
         .then = "made = len(log)",
         .want = "uses append as a value"},
        {.net = "big = [0] * 3000; r = [big, big, 2.0]\n" NET("forward(x) { return c(relu(a(x)) * r[2]) }"),
         .then = "r[2] = -1.5",
         .want = "more than 4096 values"},
        {.net = "r = {a: 1}; r.self = r; r.scale = 2.0\n" NET("forward(x) { return c(relu(a(x)) * r.scale) }"),
         .then = "r.scale = -1.5",
         .want = "contains itself"},
        {.net = "g = param(ones(1)); g.grad = ones(1)\n" NET("forward(x) { return c(a(x)) * g.grad }"),
         .then = "g.grad = 3 * ones(1)",
         .want = "reads .grad"},
        {.net = PLAIN, .then = "dbg { break time() < 0 }", .want = "evaluated on the host"},
        {.net = PLAIN, .then = "dbg { break c.weight.shape == [4] }", .want = "evaluated on the host"},
        {.net = PLAIN,
         .then = "w = param(ones(1)); w.grad = w; dbg { break w.grad > 2 }",
         .want = "evaluated on the host"},
        {.net = "log = []\n" PLAIN,
         .how = ", loss=fn (out, y) { log.append(1); return cross_entropy(out, y) }",
         .then = "made = len(log)",
         .want = "a function (t:"},
    };
    for (size_t i = 0; i < sizeof p / sizeof *p; i++) check(&p[i]);
}

static int begin(void **state) {
    (void)state;
    fake_register();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pure_functions_are_captured),
        cmocka_unit_test(schedules_are_asked_once_a_step),
        cmocka_unit_test(what_they_use_is_watched),
        cmocka_unit_test(others_run_op_by_op),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
