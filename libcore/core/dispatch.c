/* Running an op: promote, infer, allocate, run, record. Recording comes last, so that a failed call is on no tape. */
#include "autograd/nonfinite.h"
#include "autograd/recording.h"
#include "autograd/vmap.h"
#include "autograd/tape.h"
#include "core/device/device.h"
#include "core/effects.h"
#include "core/mode.h"
#include "core/op.h"
#include "core/op_times.h"
#include "core/random/rng.h"
#include "core/scope.h"
#include "core/widening.h"
#include "dlcore/copy.h"

#include <stdio.h>
#include <string.h>

/* One call, with what it must release. */
typedef struct frame {
    dl_call call;
    dl_tensor *in_buf[DL_MAX_NAMED_IN], **in;
    dl_tensor *out[DL_MAX_OUT];
    bool wide;   /* the kernel makes f32 of operands of 16 bits */
    bool narrow; /* it makes 16 bits of such an operand and one of f32 */
} frame;

/* "f32[2,3], i64[4]" of the operands, for the error record. */
static void describe(dl_tensor *const *in, int nin, char *buf, size_t size) {
    size_t n = 0;
    buf[0] = 0;
    for (int i = 0; i < nin && n + 1 < size; i++) {
        const dl_tensor *t = in[i];
        n += (size_t)snprintf(buf + n, size - n, "%s%s%s", i ? ", " : "", t ? dl_type_of(t) : "none",
                              t ? dl_shape_of(t) : "");
    }
}

static dl_status fail_context(const dl_op *op, dl_tensor *const *in, int nin, dl_status s) {
    char text[256];
    describe(in, nin, text, sizeof text);
    dl_error_context(op->name, text);
    return s;
}

static dl_status check_inputs(const dl_op *op, dl_tensor *const *in, int nin) {
    if (nin < op->in_min || nin > op->in_max)
        return dl_fail(DL_ERR_VALUE, "takes %d%s input%s, got %d", op->in_min, nin > op->in_max ? " at most" : "",
                       op->in_min == 1 ? "" : "s", nin);
    int list = op->in_max; /* from here on a list, whose items are all there */
    if (list == DL_MAX_IN)
        for (list = 0; op->in_name[list + 1];) list++;
    for (int i = 0; i < nin; i++)
        if (!in[i] && (i < op->in_min || i >= list)) return dl_fail_null("an input");
    return DL_OK;
}

/* The attribute of this name; NULL: there is none, or it is absent. */
static const dl_aval *named(const dl_op *op, const dl_aval *attr, const char *name) {
    int i = dl_attr_index(op, name);
    return i >= 0 && attr[i].given ? &attr[i] : NULL;
}

/* All operands on one device; a number of the language goes with any. */
static dl_status find_device(dl_call *c) {
    int found = -1;
    for (int i = 0; i < c->nin; i++) {
        if (!c->in[i] || (c->in[i]->weak && !c->in[i]->st->device)) continue;
        int d = c->in[i]->st->device;
        if (found >= 0 && d != found) {
            char a[32];
            snprintf(a, sizeof a, "%s", dl_device_name(found));
            return dl_fail_hint(DL_ERR_DEVICE, "move one of them with .to(\"cpu\") or .to(\"cuda\")",
                                "operands live on different devices, %s and %s", a, dl_device_name(d));
        }
        found = d;
    }
    const dl_aval *device = c->op->flags & DL_F_CREATE ? named(c->op, c->attr, "device") : NULL;
    if (device) found = (int)device->u.i;
    c->device = found >= 0 ? found : c->op->flags & DL_F_CREATE ? dl_device_default_get() : 0;
    return dl_device_check(c->device);
}

/* Most ops do not know complex numbers: their rows say so, before a kernel or a part of a composite meets one. */
static dl_status check_complex(const dl_call *c) {
    if (c->op->flags & (DL_F_COMPLEX | DL_F_VIEW)) return DL_OK;
    for (int i = 0; i < c->nin; i++)
        if (c->in[i] && dl_dtype_is_complex(c->in[i]->dtype))
            return dl_fail_hint(DL_ERR_DTYPE, "use x.abs(), x.angle(), or the parts x.real() and x.imag()",
                                "%s does not take complex numbers", c->op->name);
    const dl_aval *dtype = named(c->op, c->attr, "dtype");
    if (dtype && dl_dtype_is_complex((dl_dtype)dtype->u.i))
        return dl_fail_hint(DL_ERR_DTYPE, "make the parts, and complex(re, im) of them",
                            "%s does not make complex numbers", c->op->name);
    return DL_OK;
}

/* Input 0 alone decides. */
static bool by_first(const dl_op *op) {
    return op->promote == DL_P_NONE || op->promote == DL_P_FIRST || op->promote == DL_P_PARAMS;
}

static int first_promoted(const dl_op *op) { return op->promote == DL_P_REST; }

static dl_dtype complex_of(dl_dtype t) { return t == DL_F64 ? DL_C128 : DL_C64; }

/* The common dtype by PyTorch's rules: operands with dimensions decide before 0-d ones, and these before numbers,
 * unless a later group holds a higher kind (bool < integer < floating < complex); a floating number among integers
 * means the default dtype, and a complex one beside floats means complex of their width. Numbers alone keep what they
 * are. */
static dl_dtype common_dtype(const dl_call *c) {
    int group[3] = {-1, -1, -1};
    bool alone = true;
    for (int i = 0; i < c->nin; i++) alone = alone && c->in[i] && c->in[i]->weak;
    for (int i = first_promoted(c->op); i < c->nin; i++) {
        const dl_tensor *t = c->in[i];
        if (!t) continue;
        int g = t->weak ? 2 : t->ndim == 0;
        dl_dtype d = t->dtype;
        if (t->weak && !alone)
            d = dl_dtype_is_float(d) ? dl_default_dtype_get() : d == DL_C128 ? complex_of(dl_default_dtype_get()) : d;
        group[g] = group[g] < 0 ? (int)d : (int)dl_dtype_promote((dl_dtype)group[g], d);
    }
    int best = -1;
    for (int g = 0; g < 3; g++)
        if (group[g] >= 0 && (best < 0 || dl_dtype_kind((dl_dtype)group[g]) > dl_dtype_kind((dl_dtype)best)))
            best = best == DL_F64 ? DL_C128 : group[g];
    return best < 0 ? dl_default_dtype_get() : (dl_dtype)best;
}

/* Replaces *t by `by`, whose reference it takes; a number of the language stays one. */
static dl_status replace(dl_tensor **t, dl_tensor *by) {
    if (!by) return dl_failed();
    by->weak = (*t)->weak;
    dl_unref(*t);
    *t = by;
    return DL_OK;
}

static dl_status cast_input(frame *f, int i, dl_dtype to) {
    dl_tensor *t = f->in[i];
    return !t || t->dtype == (int8_t)to ? DL_OK : replace(&f->in[i], dl_to(t, to));
}

/* Does the op write to this input? Inputs past 31 follow bit 31. */
static bool is_mutated(const dl_op *op, int i) { return op->mutates >> (i < 31 ? i : 31) & 1; }

static bool is_half(const dl_tensor *t) { return t && DL_BIT(t->dtype) & DL_HALVES; }

/* Of a composite with DL_F_WIDEN that runs: its inputs, and those of them that were converted to f32. */
typedef struct dl_widening {
    dl_tensor **in, *wide[DL_MAX_NAMED_IN];
    int nin;
    bool ends;
} dl_widening;

static _Thread_local dl_widening *widening;

dl_widening *dl_widening_swap(dl_widening *to) {
    dl_widening *was = widening;
    return widening = to, was;
}

bool dl_widening_goes_on(const dl_call *c) { return widening && widening->in != c->in; }

void dl_widening_ends(const dl_call *c) {
    if (widening && widening->in == c->in) widening->ends = true;
}

static bool wants_gradient(const dl_call *c) {
    for (int i = 0; dl_recording() && i < c->nin; i++)
        if (c->in[i] && dl_requires_grad(c->in[i])) return true;
    return false;
}

/* Does the kernel make 16 bits of such operands, and nobody want more of it? */
static bool narrows(const dl_call *c) {
    const dl_kernel *k = dl_kernel_of(c->op, c->device);
    if (c->nin != 2 || !k || !(k->flags & DL_K_NARROW) || dl_vmap_watching || dl_recorder) return false;
    if (!c->in[0] || !c->in[1] || c->in[0]->weak || c->in[1]->weak || wants_gradient(c)) return false;
    return is_half(c->in[0]) && c->in[1]->dtype == DL_F32;
}

/* Does the kernel read all of the floating operands, of 16 bits, as they are, and make f32 of them? */
static bool takes_halves(const dl_call *c) {
    const dl_kernel *k = dl_kernel_of(c->op, c->device);
    const dl_tensor *first = c->nin ? c->in[0] : NULL;
    if (!is_half(first) || !k || !(k->flags & DL_K_WIDE) || dl_vmap_watching || dl_recorder) return false;
    for (int i = 1; i < c->nin; i++)
        if (c->in[i] && dl_dtype_is_float(c->in[i]->dtype) && c->in[i]->dtype != first->dtype) return false;
    return true;
}

/* Operand i in f32; an input of the composite is converted once. */
static dl_status widen_input(frame *f, dl_widening *w, int i) {
    int k = 0;
    while (k < w->nin && w->in[k] != f->in[i]) k++;
    if (k == w->nin || (!dl_recording() && dl_requires_grad(f->in[i]))) return cast_input(f, i, DL_F32);
    if (!w->wide[k] && !(w->wide[k] = dl_to(w->in[k], DL_F32))) return dl_failed();
    return replace(&f->in[i], dl_ref(w->wide[k]));
}

/* Rows of a composite that runs in f32. */
static dl_status widen(frame *f) {
    dl_call *c = &f->call;
    dl_widening *w = widening;
    if (c->op->flags & (DL_F_VIEW | DL_F_COMPOSITE | DL_F_CREATE)) return DL_OK;
    if (takes_halves(c)) return f->wide = !w->ends || wants_gradient(c), DL_OK;
    if (w->ends && (f->narrow = narrows(c))) return DL_OK;
    widening = NULL;
    dl_status s = DL_OK;
    for (int i = 0; i < c->nin && s == DL_OK; i++)
        if (is_half(f->in[i]) && !is_mutated(c->op, i)) s = widen_input(f, w, i);
    widening = w;
    return s;
}

/* Mixed precision: floating operands to the dtype that the op computes in; the cast is recorded, so that gradients have
 * the dtype of the parameters. */
static dl_status mix(frame *f) {
    const dl_op *op = f->call.op;
    if (op->amp == DL_AMP_KEEP || dl_precision_get() <= DL_PRECISION_TF32) return DL_OK;
    for (int i = 0; i < f->call.nin; i++) {
        const dl_tensor *t = f->in[i];
        if (t && !t->weak && !is_mutated(op, i)) DL_TRY(cast_input(f, i, dl_mixed_dtype(op, t->dtype)));
    }
    return DL_OK;
}

/* Does the kernel convert operands as it reads them? A single number of f64 among tensors of f32 is cast. Where
 * gradients are recorded, rules find operands of one dtype. */
static bool reads_others(const dl_call *c) {
    const dl_kernel *k = dl_kernel_of(c->op, c->device);
    if (c->dtype != DL_F32 || !k || !(k->flags & DL_K_READS) || dl_vmap_watching || dl_recorder) return false;
    for (int i = 0; i < c->nin; i++)
        if (!c->in[i] || (dl_recording() && dl_requires_grad(c->in[i]))) return false;
    return true;
}

static dl_status promote(frame *f) {
    dl_call *c = &f->call;
    const dl_op *op = c->op;
    if (op->flags & DL_F_CREATE) {
        const dl_aval *dtype = named(op, c->attr, "dtype");
        c->dtype = dtype ? (dl_dtype)dtype->u.i : dl_default_dtype_get();
        return DL_OK;
    }
    if (f->narrow) return c->dtype = c->in[0]->dtype, DL_OK;
    if (by_first(op)) {
        c->dtype = c->nin && c->in[0] ? c->in[0]->dtype : DL_F32;
        bool keep = op->promote == DL_P_PARAMS && (DL_BIT(c->dtype) & DL_HALVES);
        for (int i = 1; op->promote != DL_P_NONE && i < c->nin; i++)
            if (c->in[i] && (dl_dtype_is_float(c->in[i]->dtype) || c->in[i]->weak) && !is_mutated(op, i) &&
                !(keep && c->in[i]->dtype == DL_F32))
                DL_TRY(cast_input(f, i, c->dtype));
        return DL_OK;
    }
    c->dtype = common_dtype(c);
    if (op->promote == DL_P_FLOAT && !dl_dtype_is_smooth(c->dtype)) c->dtype = dl_default_dtype_get();
    bool as_they_are = reads_others(c);
    for (int i = first_promoted(op); i < c->nin; i++)
        if (!as_they_are || c->in[i]->weak || c->in[i]->dtype == DL_F64) DL_TRY(cast_input(f, i, c->dtype));
    return DL_OK;
}

static void widen_results(const dl_call *c, dl_meta *meta) {
    for (int i = 0; i < c->op->out; i++)
        if (meta[i].dtype == (int8_t)c->dtype) meta[i].dtype = DL_F32;
}

static dl_tensor *fresh(const dl_meta *m) {
    dl_tensor *t = dl_tensor_empty(m->ndim, m->shape, m->dtype, m->device);
    if (t && m->strided) memcpy(t->stride, m->stride, sizeof t->stride);
    return t;
}

static dl_tensor *alias(dl_tensor *of, const dl_meta *m, bool view) {
    dl_tensor *t = dl_view_new(of->st, m->dtype, m->ndim, m->shape, m->stride, m->offset);
    if (t && view) t->base = dl_ref(of->base ? of->base : of);
    return t;
}

static dl_status allocate(frame *f, const dl_meta *meta) {
    const dl_op *op = f->call.op;
    for (int i = 0; i < op->out; i++) {
        const dl_meta *m = &meta[i];
        if (m->absent) continue;
        f->out[i] = m->alias >= 0 ? alias(f->in[m->alias], m, !op->mutates) : fresh(m);
        if (!f->out[i]) return dl_failed();
    }
    return DL_OK;
}

/* Numbers of the language follow the other operands to their device. */
static dl_status move_numbers(dl_call *c) {
    DL_SCOPED_GRAD_MODE(0);
    for (int i = 0; i < c->nin; i++)
        if (c->in[i] && c->in[i]->st->device != c->device)
            DL_TRY(replace(&c->in[i], dl_to_device(c->in[i], c->device)));
    return DL_OK;
}

static dl_status run_kernel(dl_call *c) {
    const dl_op *op = c->op;
    const dl_kernel *k = dl_kernel_of(op, c->device);
    if (!k || !k->run)
        return dl_fail_hint(DL_ERR_UNSUPPORTED, c->device ? "x.to(\"cpu\") makes operands with which it runs" : NULL,
                            "%s has no kernel on %s%s%s", op->name, dl_device_name(c->device), k && k->none ? ": " : "",
                            k && k->none ? k->none : "");
    if (!(k->dtypes & DL_BIT(c->dtype))) {
        char set[128];
        return dl_fail_hint(DL_ERR_DTYPE, "convert with .to(DTYPE)", "%s does not take %s on %s; it takes %s", op->name,
                            dl_dtype_name(c->dtype), dl_device_name(c->device),
                            dl_dtype_set_text(k->dtypes, set, sizeof set));
    }
    bool along = k->flags & DL_K_NUMBERS && !dl_dtype_is_complex(c->dtype); /* 8 bytes at most go along with a launch */
    if (c->device && !along) DL_TRY(move_numbers(c));
    if (op->flags & DL_F_RNG) {
        c->stream = op->flags & DL_F_DROPOUT ? DL_STREAM_DROPOUT : dl_rng_used();
        c->rng = dl_rng_next(c->stream);
        dl_effects_draw(c->device);
    }
    bool outer = dl_stop_swap(false);
    dl_widening *widens = dl_widening_swap(NULL);
    dl_vmap_watch *watching = dl_vmap_watching;
    if (__builtin_expect(watching != NULL, 0)) dl_vmap_watching = NULL; /* rows within a kernel are its own affair */
    dl_status s = __builtin_expect(dl_timer != NULL, 0) ? dl_times_run(k, c) : k->run(c);
    if (__builtin_expect(watching != NULL, 0)) dl_vmap_watching = watching;
    dl_widening_swap(widens);
    if (dl_stop_swap(outer)) return dl_fail(DL_ERR_INTERRUPT, "interrupted");
    if (s == DL_OK && __builtin_expect(dl_nonfinite_suspects(c->device == 0), 0))
        s = c->device ? dl_nonfinite_check_device(c) : dl_nonfinite_check(c);
    return s == DL_OK ? dl_interrupt_check() : s;
}

/* An op that writes to its operands is not interrupted: half of the elements would be changed. */
static dl_status run_wholly(dl_call *c) {
    if (!c->op->mutates) return run_kernel(c);
    DL_SCOPED_INTERRUPT_HOLD(1);
    return run_kernel(c);
}

/* A view op whose rule found no view: the fresh output gets the memory of a contiguous copy. */
static dl_status copy_instead(frame *f) {
    dl_tensor *x = f->in[0];
    long stride[DL_MAX_DIM];
    dl_strides_contiguous(x->ndim, x->shape, stride);
    DL_SCOPED_GRAD_MODE(0);
    dl_widening *widens = dl_widening_swap(NULL); /* the elements stay as they are */
    DL_OWNED dl_tensor *flat = dl_restride(x, stride, x->ndim);
    dl_widening_swap(widens);
    if (!flat) return dl_failed();
    dl_storage_unref(f->out[0]->st);
    f->out[0]->st = dl_storage_ref(flat->st);
    f->out[0]->offset = flat->offset;
    return DL_OK;
}

/* The result of numbers of the language alone is such a number. */
static void mark_numbers(const frame *f) {
    const dl_call *c = &f->call;
    for (int i = 0; i < c->nin; i++)
        if (!c->in[i] || !c->in[i]->weak) return;
    for (int i = 0; c->nin && i < c->nout; i++)
        if (f->out[i]) f->out[i]->weak = true;
}

/* Does this call write to its operands? Ops that have the attribute `training` do so in training alone. */
static bool writes(const dl_call *c) {
    const dl_aval *training = c->op->mutates ? named(c->op, c->attr, "training") : NULL;
    return c->op->mutates && (!training || training->u.i);
}

static void mark_mutated(const dl_call *c) {
    for (int i = 0; i < c->nin && writes(c); i++)
        if (c->in[i] && is_mutated(c->op, i)) dl_touch(c->in[i]);
}

static dl_status check_writable(const dl_call *c) {
    for (int i = 0; i < c->nin && writes(c); i++)
        if (c->in[i] && c->in[i]->st->readonly && is_mutated(c->op, i))
            return dl_fail_hint(DL_ERR_STATE, "change a clone() of it",
                                "the memory of this tensor belongs to another library, which lets it be read only");
    return DL_OK;
}

static dl_status compose_widening(dl_call *c) {
    dl_widening w = {.in = c->in, .nin = c->nin};
    widening = &w;
    dl_status s = c->op->compose(c);
    widening = NULL;
    for (int i = 0; i < DL_MAX_NAMED_IN; i++) dl_unref(w.wide[i]);
    return s;
}

static dl_status compose(frame *f) {
    dl_call *c = &f->call;
    const bool later = c->op->flags & DL_F_WIDEN;
    dl_dtype given = c->nin && is_half(f->in[0]) ? f->in[0]->dtype : DL_F32;
    if (!(c->op->flags & (DL_F_WIDE | DL_F_WIDEN)) || given == DL_F32) return c->op->compose(c);
    for (int i = 0; i < c->nin && !later; i++)
        if (is_half(f->in[i])) DL_TRY(cast_input(f, i, DL_F32));
    c->dtype = DL_F32;
    DL_TRY(later && !widening ? compose_widening(c) : c->op->compose(c));
    if (widening || c->out[0]->dtype == (int8_t)given) return DL_OK; /* within another one it stays f32 */
    return replace(&c->out[0], dl_to(c->out[0], (int)given));
}

/* On the tape, and in the recording. */
static dl_status record(const dl_call *c) {
    dl_status s = c->op->flags & DL_F_NODIFF ? DL_OK : dl_record(c);
    if (__builtin_expect(dl_recorder != NULL, 0) && s == DL_OK) dl_recording_add(c);
    if (__builtin_expect(dl_vmap_watching != NULL, 0) && s == DL_OK) dl_vmap_add(c);
    return s;
}

/* A composite with a gradient rule of its own is recorded as one op, and its parts are not. */
static dl_status compose_ruled(frame *f) {
    dl_calls *recorder = dl_recorder;
    dl_vmap_watch *watching = dl_vmap_watching;
    dl_recorder = NULL, dl_vmap_watching = NULL;
    dl_status s;
    {
        DL_SCOPED_GRAD_MODE(0);
        s = compose(f);
    }
    dl_recorder = recorder, dl_vmap_watching = watching;
    return s == DL_OK ? record(&f->call) : s;
}

static dl_status compose_watched(frame *f) {
    const dl_op *op = f->call.op;
    const unsigned long call = dl_composite_begin(op->name);
    dl_nonfinite_compose();
    dl_status s = op->flags & DL_F_COMPOSITE && op->grad ? compose_ruled(f) : compose(f);
    dl_composite_end(call);
    if (s == DL_OK && op->composed) mark_numbers(f);
    dl_status found = dl_nonfinite_composed(&f->call);
    return s == DL_OK ? found : s;
}

static dl_status run_frame(frame *f) {
    dl_call *c = &f->call;
    const dl_op *op = c->op;
    DL_TRY(dl_interrupt_check());
    DL_TRY(dl_attr_check(op, c->attr));
    DL_TRY(check_complex(c));
    DL_TRY(find_device(c));
    DL_TRY(mix(f));
    if (__builtin_expect(widening != NULL, 0)) DL_TRY(widen(f));
    DL_TRY(promote(f));
    if (op->mutates) DL_TRY(check_writable(c));
    if (op->flags & DL_F_COMPOSITE || (op->compose && op->composed(c))) return compose_watched(f);
    dl_meta meta[DL_MAX_OUT] = {0};
    for (int i = 0; i < op->out; i++) meta[i].alias = -1;
    DL_TRY(op->infer(c, meta));
    if (f->wide) widen_results(c, meta);
    DL_TRY(allocate(f, meta));
    if (!(op->flags & DL_F_VIEW))
        DL_TRY(run_wholly(c));
    else if (meta[0].alias < 0 && f->out[0]->numel)
        DL_TRY(copy_instead(f));
    if (op->mutates) mark_mutated(c);
    mark_numbers(f);
    return record(c);
}

dl_status dl_invoke(const dl_op *op, dl_tensor *const *in, int nin, const dl_aval *attr, dl_tensor **out) {
    dl_status s = check_inputs(op, in, nin);
    if (s != DL_OK) return fail_context(op, in, nin, s);
    dl_tensor *many[DL_MAX_IN];
    frame f = {.call = {.op = op, .nin = nin, .nout = op->out, .attr = attr},
               .in = nin > DL_MAX_NAMED_IN ? many : NULL};
    if (!f.in) f.in = f.in_buf;
    f.call.in = f.in;
    f.call.out = f.out;
    for (int i = 0; i < nin; i++) f.in[i] = dl_ref(in[i]);
    const char *outer = dl_doing_set(op->name);
    s = run_frame(&f);
    dl_doing_set(outer);
    if (s != DL_OK) fail_context(op, in, nin, s);
    for (int i = 0; i < nin; i++) dl_unref(f.in[i]);
    for (int i = 0; i < op->out; i++) {
        if (s == DL_OK)
            out[i] = f.out[i];
        else
            dl_unref(f.out[i]);
    }
    return s;
}

dl_tensor *dl_invoke1(const dl_op *op, dl_tensor *const *in, int nin, const dl_aval *attr) {
    dl_tensor *out[DL_MAX_OUT] = {0};
    if (dl_invoke(op, in, nin, attr, out) != DL_OK) return NULL;
    for (int i = 1; i < op->out; i++) dl_unref(out[i]);
    return out[0];
}

dl_meta dl_meta_like(const dl_tensor *t, int ndim, const long *shape) {
    dl_meta m = {.ndim = (int8_t)ndim, .dtype = t->dtype, .alias = -1, .device = t->st->device};
    for (int i = 0; i < ndim; i++) m.shape[i] = shape[i];
    return m;
}

dl_meta dl_meta_of(const dl_tensor *t) {
    dl_meta m = dl_meta_like(t, t->ndim, t->shape);
    m.strided = true;
    m.offset = t->offset;
    memcpy(m.stride, t->stride, sizeof m.stride);
    return m;
}
