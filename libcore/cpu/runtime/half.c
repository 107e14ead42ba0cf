/* 16-bit floats on the CPU: conversion of contiguous elements, and running a kernel that only knows f32. */
#include "autograd/nonfinite.h"
#include "cpu/runtime/half.h"
#include "cpu/runtime/iter.h"
#include "dlcore/copy.h"

void dl_cpu_half_to_f32(long n, const void *src, dl_dtype dtype, float *dst) {
    if (dtype == DL_F16)
        DL_SIMD_PICK(dl_f16_up)(n, (const unsigned short *)src, dst);
    else
        DL_SIMD_PICK(dl_bf16_up)(n, (const unsigned short *)src, dst);
}

void dl_cpu_f32_to_half(long n, const float *src, void *dst, dl_dtype dtype) {
    if (dtype == DL_F16)
        DL_SIMD_PICK(dl_f16_down)(n, src, (unsigned short *)dst);
    else
        DL_SIMD_PICK(dl_bf16_down)(n, src, (unsigned short *)dst);
}

void dl_cpu_look_bf16(const void *x, long n) {
    if (DL_SIMD_PICK(dl_bf16_odd)(n, x)) dl_fp_suspect();
}

static bool is_half(const dl_tensor *t) { return DL_BIT(t->dtype) & DL_HALVES; }

/* A new reference to t itself, or a contiguous copy in f32 (or, for other dtypes, in its own). */
static dl_tensor *prepared(dl_tensor *t, bool contiguous) {
    if (!is_half(t) && (!contiguous || dl_is_contiguous(t))) return dl_ref(t);
    dl_tensor *n = dl_tensor_empty(t->ndim, t->shape, is_half(t) ? DL_F32 : t->dtype, t->st->device);
    if (n) dl_cpu_copy(n, t);
    return n;
}

static void release(dl_tensor **t, int n) {
    for (int i = 0; i < n; i++) dl_unref(t[i]);
}

/* own_inputs: run reads inputs of 16 bits itself. */
static dl_status via_f32(dl_call *c, dl_status (*run)(dl_call *), bool contiguous, bool own_inputs) {
    bool half = DL_BIT(c->dtype) & DL_HALVES;
    if (!half && !contiguous) return run(c);
    dl_tensor *in[DL_MAX_NAMED_IN] = {0}, *out[DL_MAX_OUT] = {0};
    dl_call f = *c;
    dl_status s = DL_OK;
    f.in = in;
    f.out = out;
    if (half) f.dtype = DL_F32;
    for (int i = 0; i < c->nin && s == DL_OK; i++)
        if (c->in[i] && !(in[i] = own_inputs ? dl_ref(c->in[i]) : prepared(c->in[i], contiguous))) s = dl_failed();
    for (int i = 0; i < c->nout && s == DL_OK; i++) {
        dl_tensor *o = c->out[i];
        if (!o) continue;
        bool own = is_half(o) || (contiguous && !dl_is_contiguous(o));
        out[i] = own ? dl_tensor_empty(o->ndim, o->shape, is_half(o) ? DL_F32 : o->dtype, 0) : dl_ref(o);
        if (!out[i]) s = dl_failed();
    }
    if (s == DL_OK) s = run(&f);
    for (int i = 0; i < c->nout && s == DL_OK; i++)
        if (c->out[i] && out[i] != c->out[i]) dl_cpu_copy(c->out[i], out[i]);
    release(in, c->nin < DL_MAX_NAMED_IN ? c->nin : DL_MAX_NAMED_IN);
    release(out, c->nout);
    return s;
}

dl_status dl_cpu_via_f32(dl_call *c, dl_status (*run)(dl_call *), bool contiguous) {
    return via_f32(c, run, contiguous, false);
}

dl_status dl_cpu_results_via_f32(dl_call *c, dl_status (*run)(dl_call *)) { return via_f32(c, run, false, true); }

dl_status dl_cpu_grad_via_f32(dl_back *b, dl_status (*fused)(dl_back *)) {
    dl_tensor *given = b->g[0];
    if (!(DL_BIT(dl_in_meta(b, 0)->dtype) & DL_HALVES)) return fused(b);
    b->g[0] = dl_tmp(b, dl_to(given, DL_F32)), b->wide = true;
    dl_status s = b->g[0] ? fused(b) : dl_failed();
    b->g[0] = given, b->wide = false;
    return s;
}
