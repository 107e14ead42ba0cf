# GSL through its headers: a differential equation, a root and an integral of functions of the language, macros, inline
# functions, structs by value, and an error handler that aborts.
[ -f /usr/include/gsl/gsl_odeiv2.h ] || { echo "skipped: GSL is not here (Debian: libgsl-dev)"; exit 77; }
command -v cc >/dev/null || exit 77
lib=$(basename "$(ls /usr/lib/*/libgsl.so.[0-9]* | head -1)")
cat > use.dlsh <<END
extern "$lib" header <gsl/gsl_odeiv2.h> <gsl/gsl_errno.h> <gsl/gsl_roots.h> <gsl/gsl_math.h> <gsl/gsl_sf.h>
    <gsl/gsl_const_mksa.h> <gsl/gsl_integration.h> <gsl/gsl_complex_math.h> <gsl/gsl_matrix.h> <gsl/gsl_rng.h>;
END
cat >> use.dlsh <<'END'
# van der Pol's oscillator, as in GSL's manual
calls = [0]
sys = new("gsl_odeiv2_system")
sys.dimension = 2
sys.function = fn (t, y, dydt, params) {
    calls[0] = calls[0] + 1
    mu = cast("double *", params)[0]
    dydt[0] = y[1]
    dydt[1] = -y[0] - mu * y[1] * (y[0] * y[0] - 1)
    return GSL_SUCCESS
}
mu = new("double", 10)
sys.params = mu
driver = gsl_odeiv2_driver_alloc_y_new(sys, gsl_odeiv2_step_rkf45, 1e-6, 1e-6, 0.0)
t = new("double", 0)
y = tensor([1.0, 0.0], dtype=f64)
gsl_odeiv2_driver_apply(driver, t, 100.0, y) == GSL_SUCCESS
y
[t[0], calls[0] > 1000]
gsl_odeiv2_driver_free(driver)

# a root, bracketed
F = new("gsl_function")
F.function = fn (x, params) { return x * x - 5 }
solver = gsl_root_fsolver_alloc(gsl_root_fsolver_brent)
gsl_root_fsolver_set(solver, F, 0.0, 5.0)
status = GSL_CONTINUE
while status == GSL_CONTINUE {
    gsl_root_fsolver_iterate(solver);
    status = gsl_root_test_interval(gsl_root_fsolver_x_lower(solver), gsl_root_fsolver_x_upper(solver), 0, 1e-12)
}
gsl_root_fsolver_name(solver)
abs(gsl_root_fsolver_root(solver) - 5 ** 0.5) < 1e-9
gsl_root_fsolver_free(solver)

# an integral with a singularity
G = new("gsl_function")
G.function = fn (x, params) { return log(x) / sqrt(x) }
space = gsl_integration_workspace_alloc(1000)
result = new("double"); error = new("double")
gsl_integration_qags(G, 0, 1, 0, 1e-7, 1000, space, result, error)
abs(result[0] + 4) < 1e-9
gsl_integration_workspace_free(space)

# constants, macros, inline functions, results in structs, structs by value
[M_SQRT2, GSL_CONST_MKSA_SPEED_OF_LIGHT, GSL_EDOM]
[GSL_MAX(3, 4), GSL_IS_ODD(3), GSL_SIGN(-2.5), GSL_FN_EVAL(F, 3.0)]
r = new("gsl_sf_result"); gsl_sf_bessel_J0_e(5.0, r); r.val
m = gsl_matrix_alloc(2, 2)
gsl_matrix_set(m, 0, 1, 3.5)
gsl_matrix_get(m, 0, 1)
gsl_matrix_free(m)
gsl_complex_mul([[1, 2]], [[0, 1]])
g = gsl_rng_alloc(gsl_rng_mt19937)
gsl_rng_uniform_int(g, 1000000)
gsl_rng_free(g)

# errors: a callback's, GSL's own
bad = new("gsl_function"); bad.function = fn (x, params) { return x - undefined_name }
try { GSL_FN_EVAL(bad, 1.0) } catch e { print(e.message) }
try { gsl_sf_log(-1) } catch e { print(e.kind, e.message) }
gsl_set_error_handler_off();
gsl_sf_log(-1)
gsl_strerror(GSL_EDOM)
END
dlsh -n --db none use.dlsh 2>errors
grep -v '^gsl:\|^Default GSL' errors
exit 0
