/* Modified Bessel functions of order 0 and 1, times e**-|x|, without branches, for C and for CUDA: up to 8 the power
 * series, which has no negative terms, above a polynomial of 16 / |x| - 1 over sqrt(|x|). No guard: before it DL_VECTOR
 * begins a function, and dl_vexp, dl_vlog and their f64 forms are defined. */
#ifdef DL_VECTOR
#include "core/horner.h"

/* Below 8 one, else the other: a GPU computes that alone, vectors of a CPU compute both. */
#ifdef __CUDACC__
#define DL_NEAR_OR_FAR(y, near, far) ((y) < 8.0f ? near(y) : far(y))
#else
#define DL_NEAR_OR_FAR(y, near, far) dl_vpick(y, near((y) < 8.0f ? (y) : 8.0f), far((y) < 8.0f ? 8.0f : (y)))
DL_VECTOR float dl_vpick(float y, float near, float far) { return y < 8.0f ? near : far; }
#endif

DL_VECTOR float dl_vi0e_near(float y) {
    float z = y * y * 0.25f, p;
    p = DL_HORNER(DL_MUL_ADD, z, 5.84791131e-25f, 1.31578005e-22f, 2.57892889e-20f, 4.35838982e-18f, 6.27608135e-16f,
                  7.59405843e-14f, 7.59405843e-12f, 6.15118733e-10f, 3.93675989e-08f, 1.92901235e-06f);
    p = DL_HORNER(DL_MUL_ADD, z, p, 6.94444444e-05f, 0.00173611111f, 0.0277777778f, 0.25f, 1.0f, 1.0f);
    return p * dl_vexp(-y);
}
DL_VECTOR float dl_vi0e_far(float y) {
    float u = 16.0f / y - 1.0f, p;
    p = DL_HORNER(DL_MUL_ADD, u, 3.21343457e-09f, 3.17346827e-08f, 1.0222958e-07f, 3.07125179e-07f, 1.48016687e-06f,
                  1.1139924e-05f, 0.000136216348f, 0.00336055223f, 0.402176509f);
    return p / sqrtf(y);
}
DL_VECTOR float dl_vi0e(float x) {
    float y = fabsf(x), p = DL_NEAR_OR_FAR(y, dl_vi0e_near, dl_vi0e_far);
    return x != x ? x : p;
}
DL_VECTOR float dl_vi1e_near(float y) {
    float z = y * y * 0.25f, p;
    p = DL_HORNER(DL_MUL_ADD, z, 3.65494457e-26f, 8.77186697e-24f, 1.84209206e-21f, 3.35260756e-19f, 5.23006779e-17f,
                  6.90368948e-15f, 7.59405843e-13f, 6.83465259e-11f, 4.92094986e-09f, 2.75573192e-07f);
    p = DL_HORNER(DL_MUL_ADD, z, p, 1.15740741e-05f, 0.000347222222f, 0.00694444444f, 0.0833333333f, 0.5f, 1.0f);
    return p * dl_vexp(-y) * (0.5f * y);
}
DL_VECTOR float dl_vi1e_far(float y) {
    float u = 16.0f / y - 1.0f, p;
    p = DL_HORNER(DL_MUL_ADD, u, -4.23689781e-09f, -3.59046383e-08f, -1.14235342e-07f, -3.58195365e-07f,
                  -1.83102124e-06f, -1.50353904e-05f, -0.000219236053f, -0.00974957744f, 0.389398459f);
    return p / sqrtf(y);
}
DL_VECTOR float dl_vi1e(float x) {
    float y = fabsf(x), p = DL_NEAR_OR_FAR(y, dl_vi1e_near, dl_vi1e_far);
    return x != x ? x : copysignf(p, x);
}
DL_VECTOR float dl_vbessel(int order, float x) { return order ? dl_vi1e(x) : dl_vi0e(x); }

DL_VECTOR double dl_vi0e_f64(double x) {
    double y = fabs(x), s = y < 8.0 ? y : 8.0, z = s * s * 0.25, u = 16.0 / (y < 8.0 ? 8.0 : y) - 1.0, p;
    p = DL_HORNER(DL_MUL_ADD, z, 1.4962740468957016e-45, 7.915289708078262e-43, 3.8310002187098785e-40,
                  1.6894710964510564e-37, 6.757884385804225e-35, 2.4395962632753253e-32, 7.904291893012054e-30,
                  2.2843403570804838e-27, 5.8479113141260385e-25, 1.3157800456783586e-22);
    p = DL_HORNER(DL_MUL_ADD, z, p, 2.5789288895295828e-20, 4.358389823304995e-18, 6.276081345559193e-16,
                  7.594058428126623e-14, 7.594058428126624e-12, 6.151187326782565e-10, 3.936759889140842e-08,
                  1.9290123456790124e-06, 6.944444444444444e-05);
    p = DL_HORNER(DL_MUL_ADD, z, p, 0.001736111111111111, 0.027777777777777776, 0.25, 1.0, 1.0);
    double near = p * dl_vexp_f64(-s);
    p = DL_HORNER(DL_MUL_ADD, u, -7.06893851181878e-11, -1.9216763724933513e-11, 5.181936971288284e-10,
                  1.4672236659214398e-10, -1.7789375042917173e-09, -5.562201990080394e-10, 3.881151253996067e-09,
                  1.497880830187091e-09, -6.188265090497361e-09, -3.4857887470034955e-09);
    p = DL_HORNER(DL_MUL_ADD, u, p, 7.58022133915272e-09, 7.540601378890834e-09, -5.4685974495866e-09,
                  -1.3404241991980871e-08, -6.729724111923548e-09, 7.553516470355896e-09, 2.1545177650836005e-08,
                  3.932602459703109e-08, 8.87225351128584e-08);
    p = DL_HORNER(DL_MUL_ADD, u, p, 2.973598432479169e-07, 1.4838475473607391e-06, 1.1143033791556743e-05,
                  0.00013621607439232746, 0.003360551983667854, 0.4021765094450081);
    p = y < 8.0 ? near : p / sqrt(y);
    return x != x ? x : p;
}
DL_VECTOR double dl_vi1e_f64(double x) {
    double y = fabs(x), s = y < 8.0 ? y : 8.0, z = s * s * 0.25, u = 16.0 / (y < 8.0 ? 8.0 : y) - 1.0, p;
    p = DL_HORNER(DL_MUL_ADD, z, 6.234475195398757e-47, 3.4414303078601135e-44, 1.7413637357772174e-41,
                  8.045100459290744e-39, 3.3789421929021126e-36, 1.2839980333028028e-33, 4.391273273895586e-31,
                  1.3437296218120491e-28, 3.654944571328774e-26, 8.771866971189057e-24);
    p = DL_HORNER(DL_MUL_ADD, z, p, 1.842092063949702e-21, 3.352607556388458e-19, 5.230067787965994e-17,
                  6.903689480115112e-15, 7.594058428126623e-13, 6.834652585313961e-11, 4.920949861426052e-09,
                  2.755731922398589e-07, 1.1574074074074073e-05);
    p = DL_HORNER(DL_MUL_ADD, z, p, 0.00034722222222222224, 0.006944444444444444, 0.08333333333333333, 0.5, 1.0);
    double near = p * dl_vexp_f64(-s) * (0.5 * s);
    p = DL_HORNER(DL_MUL_ADD, u, 7.347992441734663e-11, 1.7502497778701306e-11, -5.388285995923524e-10,
                  -1.342266320082222e-10, 1.8513716745511988e-09, 5.146498826087142e-10, -4.047785403711858e-09,
                  -1.4171698018664596e-09, 6.4870195719816896e-09, 3.406636130196794e-09);
    p = DL_HORNER(DL_MUL_ADD, u, p, -8.044231276166508e-09, -7.630751970065577e-09, 6.040877342160988e-09,
                  1.4029693589852716e-08, 6.715795128085017e-09, -8.426622829598154e-09, -2.337059627111857e-08,
                  -4.312935369971356e-08, -1.0001323461066435e-07);
    p = DL_HORNER(DL_MUL_ADD, u, p, -3.483855609009937e-07, -1.8349101134666435e-06, -1.5038547201176271e-05,
                  -0.00021923576383430274, -0.009749577193235728, 0.38939845902587233);
    p = y < 8.0 ? near : p / sqrt(y);
    return x != x ? x : copysign(p, x);
}
DL_VECTOR double dl_vbessel_f64(int order, double x) { return order ? dl_vi1e_f64(x) : dl_vi0e_f64(x); }

/* ---- of the second kind, times e**x: up to 2 by polynomials of x**2 / 4 and a logarithm, above one of 4 / x - 1 over
 * sqrt(x) */

/* ln(x / 2), also where x / 2 has lost digits */
DL_VECTOR float dl_vlog_half(float x) {
    float low = x < 1e-30f ? 0.693147180559945309f : 0.0f;
    return dl_vlog(x < 1e-30f ? x : 0.5f * x) - low;
}
DL_VECTOR float dl_vk0e(float x) {
    float s = x < 2.0f ? x : 2.0f, z = s * s * 0.25f, u = 4.0f / (x < 2.0f ? 2.0f : x) - 1.0f, p, i, far;
    p = DL_HORNER(DL_MUL_ADD, z, 3.9003623e-6f, 1.18080216e-4f, 0.00261506196f, 0.0348920611f, 0.2306961f, 0.422784334f,
                  -0.577215665f);
    i = DL_HORNER(DL_MUL_ADD, z, 7.545824e-5f, 0.00172926214f, 0.0277813495f, 0.24999916f, 1.00000007f, 0.999999999f);
    far = DL_HORNER(DL_MUL_ADD, u, -4.1419755e-7f, 1.09510067e-6f, -2.05048008e-6f, 6.6635658e-6f, -2.4787799e-5f,
                    9.96867342e-5f, -4.79762345e-4f, 0.00303287573f, -0.031071462f, 1.21859534f);
    float near = (p - dl_vlog_half(s) * i) * dl_vexp(s);
    return x < 2.0f ? near : far / sqrtf(x);
}
DL_VECTOR float dl_vk1e(float x) {
    float s = x < 2.0f ? x : 2.0f, z = s * s * 0.25f, u = 4.0f / (x < 2.0f ? 2.0f : x) - 1.0f, p, i, far;
    p = DL_HORNER(DL_MUL_ADD, z, -4.53288133e-5f, -0.0011099175f, -0.0191859235f, -0.181573856f, -0.672784554f,
                  0.154431344f, 1.0f);
    i = DL_HORNER(DL_MUL_ADD, z, 1.24290637e-5f, 3.46249968e-4f, 0.00694495111f, 0.0833332143f, 0.50000001f, 1.0f);
    far = DL_HORNER(DL_MUL_ADD, u, 4.9225372e-7f, -1.32153116e-6f, 2.56639399e-6f, -8.56317034e-6f, 3.29049934e-5f,
                    -1.39738402e-4f, 7.35716357e-4f, -0.00556671101f, 0.103349738f, 1.36315189f);
    float part = dl_vlog_half((z == 0.0f) & (x >= 0.0f) ? 2.0f : s) * (2.0f * z) * i;
    return x < 2.0f ? (p + part) / fabsf(s) * dl_vexp(s) : far / sqrtf(x);
}
DL_VECTOR float dl_vbessel_k(int order, float x) { return order ? dl_vk1e(x) : dl_vk0e(x); }

/* ln(x / 2), also where x / 2 has lost digits */
DL_VECTOR double dl_vlog_half_f64(double x) {
    double low = x < 1e-30 ? 0.693147180559945309 : 0.0;
    return dl_vlog_f64(x < 1e-30 ? x : 0.5 * x) - low;
}
DL_VECTOR double dl_vk0e_f64(double x) {
    double s = x < 2.0 ? x : 2.0, z = s * s * 0.25, u = 4.0 / (x < 2.0 ? 2.0 : x) - 1.0, p, i, far;
    p = DL_HORNER(DL_MUL_ADD, z, 1.6004673243424428e-15, 1.7841524962855407e-13, 1.7100210366038213e-11,
                  1.3167484146882789e-9, 7.935096537641886e-8, 3.6126241031303134e-6, 1.1848039364111637e-4,
                  0.0026147876188052058, 0.034892157456438902, 0.23069608377461678);
    p = DL_HORNER(DL_MUL_ADD, z, p, 0.42278433509846714, -0.57721566490153286);
    i = DL_HORNER(DL_MUL_ADD, z, 7.9468386468317775e-14, 7.5856198623756035e-12, 6.1513009796996499e-10,
                  3.9367589400828611e-8, 1.9290123507659855e-6, 6.9444444442694234e-5, 0.0017361111111114864,
                  0.027777777777777731, 0.25);
    i = DL_HORNER(DL_MUL_ADD, z, i, 1.0, 1.0);
    far = DL_HORNER(DL_MUL_ADD, u, -2.5824491452954463e-11, 4.3907526071647818e-11, 9.2394729630825432e-11,
                    -1.5419218576980703e-10, -2.2303277509244549e-10, 3.7964214040101554e-10, 1.5340050421757441e-10,
                    -2.2963004631548592e-10, -5.4181272657347925e-10, 1.0450465501796698e-9);
    far = DL_HORNER(DL_MUL_ADD, u, far, -1.4404763170501385e-9, 3.1783614760338385e-9, -7.5124576279182641e-9,
                    1.7312994948015347e-8, -4.1269185277064189e-8, 1.0288069486509947e-7, -2.6892080371526512e-7,
                    7.4279306628076499e-7, -2.1911760135033709e-6);
    far = DL_HORNER(DL_MUL_ADD, u, far, 7.0022443033309492e-6, -2.4735204685849743e-5, 9.95605474922207e-5,
                    -4.7976905676218693e-4, 0.0030328918102738114, -0.031071461824889557, 1.2185953385133905);
    double near = (p - dl_vlog_half_f64(s) * i) * dl_vexp_f64(s);
    return x < 2.0 ? near : far / sqrt(x);
}
DL_VECTOR double dl_vk1e_f64(double x) {
    double s = x < 2.0 ? x : 2.0, z = s * s * 0.25, u = 4.0 / (x < 2.0 ? 2.0 : x) - 1.0, p, i, far;
    p = DL_HORNER(DL_MUL_ADD, z, -3.4693650773130588e-14, -3.4917122565888693e-12, -3.002112559412929e-10,
                  -2.0452853920797822e-8, -1.0715459179587191e-6, -4.1422476891080508e-5, -0.0011153594919669807,
                  -0.019182189839330483, -0.18157516696085564, -0.67278433509846714);
    p = DL_HORNER(DL_MUL_ADD, z, p, 0.15443132980306572, 1.0);
    i = DL_HORNER(DL_MUL_ADD, z, 7.1971802829273161e-15, 7.5870419087196446e-13, 6.8347470603735622e-11,
                  4.9209490726365552e-9, 2.7557319266260926e-7, 1.1574074073928634e-5, 3.4722222222225341e-4,
                  0.0069444444444444405, 0.083333333333333334);
    i = DL_HORNER(DL_MUL_ADD, z, i, 0.5, 1.0);
    far = DL_HORNER(DL_MUL_ADD, u, 2.7995666818058094e-11, -4.769271324022677e-11, -9.982834769489387e-11,
                    1.6685768912737172e-10, 2.4182912072109145e-10, -4.125811311686348e-10, -1.6272771413812591e-10,
                    2.4207575779325289e-10, 6.0143528140643647e-10, -1.1668196765541737e-9);
    far = DL_HORNER(DL_MUL_ADD, u, far, 1.6440902017875839e-9, -3.6475903272439353e-9, 8.6544623339374122e-9,
                    -2.0105919261249502e-8, 4.8386021423525864e-8, -1.2195189448168138e-7, 3.2299656200519637e-7,
                    -9.0672282207571411e-7, 2.7300395099909795e-6);
    far = DL_HORNER(DL_MUL_ADD, u, far, -8.9612059296122175e-6, 3.2843865693084597e-5, -1.3959021964084847e-4,
                    7.35724154903766e-4, -0.005566729880072949, 0.10334973775386527, 1.363151890371342);
    double part = dl_vlog_half_f64((z == 0.0) & (x >= 0.0) ? 2.0 : s) * (2.0 * z) * i;
    return x < 2.0 ? (p + part) / fabs(s) * dl_vexp_f64(s) : far / sqrt(x);
}
DL_VECTOR double dl_vbessel_k_f64(int order, double x) { return order ? dl_vk1e_f64(x) : dl_vk0e_f64(x); }
#endif
