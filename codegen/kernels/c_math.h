/* What printed kernels call, after `c_support.h`: paragraphs are used one by one, as there. */

/* The functions of floats that neural networks are made of. Polynomials: minimax, by Remez' exchange, their
   coefficients rounded to float. `c_preamble.ERRORS` has the largest error of each, which a test measures. */

/* x * 2^n, in two steps: the first factor has no place for all n */
static inline float scale_f32(float x, int32_t n)
{
    const int32_t half = n >> 1;
    return x * f32_of_bits((uint32_t)(half + 127) << 23) * f32_of_bits((uint32_t)(n - half + 127) << 23);
}

/* (e^x - 1 - x) / x^2, |x| <= ln(2)/2 */
static inline float exp_rest_f32(float x)
{
    float p = FMAF(0.00139507267f, x, 0.00836902484f);
    p = FMAF(p, x, 0.0416662022f);
    p = FMAF(p, x, 0.166665182f);
    p = FMAF(p, x, 0.5f);
    return p;
}

/* the next integer to x, |x| < 2^22, as the last bits of the sum: 1.5 * 2^23 has no place for halves */
#define ROUNDED 12582912.0f

/* e^(n ln(2) + r) / 2^n, with n an integer and |r| <= ln(2)/2; `sum`: ROUNDED + n */
static inline float exp_fraction_f32(float x, float sum)
{
    const float n = sum - ROUNDED, r = FMAF(n, -1.42860677e-06f, FMAF(n, -0.693145752f, x));
    return FMAF(FMAF(exp_rest_f32(r), r, 1.0f), r, 1.0f);
}

/* -87 <= x <= 88, or NaN */
static inline float exp_near_f32(float x)
{
    const float sum = FMAF(x, 1.44269504f, ROUNDED);
    return exp_fraction_f32(x, sum) * f32_of_bits((bits_of_f32(sum) << 23) + 0x3f800000u);
}

static inline float exp_f32(float x)
{
    const float sum = FMAF(x, 1.44269504f, ROUNDED), p = exp_fraction_f32(x, sum);
    const int32_t n = (int32_t)(bits_of_f32(sum) - bits_of_f32(ROUNDED));
    const float y = scale_f32(p, n), least = x < -104.0f ? 0.0f : y;
    return x > 89.0f ? __builtin_inff() : least;
}

/* 2^n e^r - 1 = 2 (2^(n-1) (e^r - 1) + (2^(n-1) - 1/2)) */
static inline float expm1_f32(float x)
{
    const float least = x < -20.0f ? -20.0f : x, c = least > 89.0f ? 89.0f : least;
    const float n = __builtin_rintf(c * 1.44269504f);
    const float r = FMAF(n, -1.42860677e-06f, FMAF(n, -0.693145752f, c)), e = FMAF(r * r, exp_rest_f32(r), r);
    const float power = f32_of_bits((uint32_t)((int32_t)n + 126) << 23), y = 2.0f * FMAF(power, e, power - 0.5f);
    return n == 0 ? (x == 0 ? x : e) : y;
}

static inline float exp2_f32(float x)
{
    const float least = x < -151.0f ? -151.0f : x, c = least > 129.0f ? 129.0f : least;
    const float n = __builtin_rintf(c), r = c - n;
    float p = FMAF(0.000154765949f, r, 0.00134005374f);
    p = FMAF(p, r, 0.00961800292f);
    p = FMAF(p, r, 0.0555032715f);
    p = FMAF(p, r, 0.240226507f);
    p = FMAF(p, r, 0.693147182f);
    return scale_f32(FMAF(r, p, 1.0f), (int32_t)n);
}

/* log(1 + f), sqrt(1/2) <= 1 + f <= sqrt(2), as f and what is added to it */
static inline float log_rest_f32(float f)
{
    float p = FMAF(-0.0763449892f, f, 0.127654329f);
    p = FMAF(p, f, -0.131619602f);
    p = FMAF(p, f, 0.142013639f);
    p = FMAF(p, f, -0.166231498f);
    p = FMAF(p, f, 0.200012356f);
    p = FMAF(p, f, -0.250008255f);
    p = FMAF(p, f, 0.333333313f);
    return f * f * FMAF(p, f, -0.5f);
}

/* x = 2^n (1 + f) for 0 < x < inf: n, and the bits of 1 + f */
static inline int32_t exponent_f32(float x)
{
    const float normal = x < 0x1p-126f ? x * 0x1p24f : x;
    return ((int32_t)(bits_of_f32(normal) - 0x3f3504f3u) >> 23) - (x < 0x1p-126f ? 24 : 0);
}

static inline float fraction_f32(float x)
{
    const uint32_t u = bits_of_f32(x < 0x1p-126f ? x * 0x1p24f : x) - 0x3f3504f3u;
    return f32_of_bits((u & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
}

/* the logarithm of x, or that of 0, a negative number, infinity or NaN */
static inline float log_special_f32(float x, float log)
{
    const float zero = x == 0 ? -__builtin_inff() : log;
    return x > 0 ? (x < __builtin_inff() ? zero : x) : x == 0 ? zero : __builtin_nanf("");
}

static inline float log_f32(float x)
{
    const float n = (float)exponent_f32(x), f = fraction_f32(x);
    return log_special_f32(x, FMAF(n, 0.693145752f, f + FMAF(n, 1.42860677e-06f, log_rest_f32(f))));
}

static inline float log2_f32(float x)
{
    const float n = (float)exponent_f32(x), f = fraction_f32(x), rest = log_rest_f32(f);
    return log_special_f32(x, n + FMAF(f, 1.44269502f, FMAF(rest, 1.44269502f, (f + rest) * 1.92596303e-08f)));
}

static inline float log10_f32(float x)
{
    const float n = (float)exponent_f32(x), f = fraction_f32(x), rest = log_rest_f32(f);
    const float high = FMAF(f, 0.434294492f, FMAF(rest, 0.434294492f, (f + rest) * -1.01032993e-08f));
    return log_special_f32(x, FMAF(n, 0.301025391f, high + n * 4.60503898e-06f));
}

/* log(u) with u = 1 + x rounded, and what rounding took: (x - (u - 1)) / u */
static inline float log1p_f32(float x)
{
    const float u = 1.0f + x, lost = u < 0x1p24f ? (x - (u - 1.0f)) / u : 0.0f;
    const float n = (float)exponent_f32(u), f = fraction_f32(u);
    const float y = FMAF(n, 0.693145752f, f + (FMAF(n, 1.42860677e-06f, log_rest_f32(f)) + lost));
    return x == 0 ? x : log_special_f32(u, y);
}

/* up to 0.6 a polynomial of x^2 times x, then 1 - 2 / (e^2x + 1) */
static inline float tanh_f32(float x)
{
    const float a = __builtin_fabsf(x), s = x * x;
    float p = FMAF(-0.00590587268f, s, 0.0208053887f);
    p = FMAF(p, s, -0.0537866838f);
    p = FMAF(p, s, 0.133319587f);
    p = FMAF(p, s, -0.333332986f);
    const float y = a < 0.6f ? FMAF(p * s, a, a) : 1.0f - 2.0f / (exp_near_f32(2.0f * (a > 9.5f ? 9.5f : a)) + 1.0f);
    return __builtin_copysignf(y, x);
}

static inline float sigmoid_f32(float x) { return 1.0f / (1.0f + exp_f32(-x)); }

/* up to 1 a polynomial of x^2 times x, then 1 - e^-p(x) */
static inline float erf_f32(float x)
{
    const float a = __builtin_fabsf(x), s = x * x, c = a > 4.0f ? 4.0f : a;
    float near = FMAF(7.85386146e-05f, s, -0.000801019371f);
    near = FMAF(near, s, 0.00518832775f);
    near = FMAF(near, s, -0.0268538129f);
    near = FMAF(near, s, 0.112835854f);
    near = FMAF(near, s, -0.37612626f);
    near = FMAF(near, s, 0.128379166f);
    float far = FMAF(-0.000188822276f, c, 0.00297242915f);
    far = FMAF(far, c, -0.0219403803f);
    far = FMAF(far, c, 0.103327245f);
    far = FMAF(far, c, 0.637883186f);
    far = FMAF(far, c, 1.12725139f);
    far = FMAF(far, c, 0.000300444342f);
    const float y = a < 1.0f ? FMAF(near, a, a) : 1.0f - exp_near_f32(-far);
    return __builtin_copysignf(y, x);
}

/* (1 - erf(x / sqrt(2))) e^(x^2/2), x >= 0: a polynomial of x / (1 + x/4) */
static inline float beyond_f32(float x)
{
    const float c = x < 64.0f ? x : 64.0f, t = c / FMAF(0.25f, c, 1.0f);
    float p = FMAF(1.15495304e-05f, t, -0.00014927829f);
    p = FMAF(p, t, 0.000284262991f);
    p = FMAF(p, t, 0.00674013421f);
    p = FMAF(p, t, -0.0657948852f);
    p = FMAF(p, t, 0.300521165f);
    p = FMAF(p, t, -0.797883987f);
    return FMAF(p, t, 1.0f);
}

/* The exponential is also that of gelu's gradient, and computed once for both. (1 + erf) / 2, with what that loses. */
static inline float ndtr_f32(float x)
{
    const float erf = FMAF(-exp_f32(x * x * -0.5f), beyond_f32(__builtin_fabsf(x)), 1.0f);
    return FMAF(0.5f, __builtin_copysignf(erf, x), 0.5f);
}

static inline double ndtr_f64(double x) { return 0.5 * (1.0 + __builtin_erf(x * 0.70710678118654752)); }

/* An angle of the same sine and cosine: from 2^40 on the bits of 1/(2 pi) from the one of x's last digit on, times x's
   digits, are the part of a turn: 2^-37 off. */
static inline double angle_f32(float x)
{
    const uint32_t u = bits_of_f32(x);
    const uint64_t digits = (u & 0x7fffffu) | 0x800000u, e = ((u >> 23) & 0xff) - 150, low = e & 63;
    const uint64_t a = e < 64 ? 0x28be60db9391054au : 0x7f09d5f47d4d3770u;
    const uint64_t b = e < 64 ? 0x7f09d5f47d4d3770u : 0x36d8a5664f10e410u;
    const double turn = (double)(int64_t)(digits * ((a << low) | (b >> 1 >> (63 - low)))) * 3.4061215800865545e-19;
    const double big = x < 0 ? -turn : turn;
    return __builtin_fabsf(x) < 0x1p40f ? (double)x : x - x == 0 ? big : __builtin_nan("");
}

/* sin(q pi/2 + r) is one of sin(r), cos(r) and their negatives; r is right to 2^-52, being a double's */
static inline float turned_f32(float x, int32_t quarters)
{
    const double angle = angle_f32(x), q = __builtin_rint(angle * 0.6366197723675814);
    const float r = (float)FMA(q, -6.123233995736766e-17, FMA(q, -1.5707963267948966, angle)), s = r * r;
    const int64_t turns = (int64_t)q + quarters;
    const float sine = FMAF(r * s, FMAF(FMAF(-0.000195166562f, s, 0.00833217334f), s, -0.166666552f), r);
    const float rest = FMAF(FMAF(2.44377316e-05f, s, -0.00138873619f), s, 0.0416666456f);
    const float cosine = FMAF(s * s, rest, FMAF(s, -0.5f, 1.0f));
    const float y = turns & 1 ? cosine : sine;
    return turns & 2 ? -y : y;
}

static inline float sin_f32(float x) { return x == 0 ? x : turned_f32(x, 0); }

static inline float cos_f32(float x) { return turned_f32(x, 1); }

/* 2^(y log2 |x|), in doubles */
static inline float pow_f32(float x, float y)
{
    const float a = __builtin_fabsf(x);
    const uint64_t u = bits_of_f64((double)a) - 0x3fe6a09e667f3bcdu;
    const double n = (double)((int32_t)(u >> 32) >> 20), m = f64_of_bits((u & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu);
    const double s = (m - 1.0) / (m + 1.0), z = s * s;
    double p = FMA(0.34077000195498425, z, 0.41167066098304034);
    p = FMA(p, z, 0.5770836174691857);
    p = FMA(p, z, 0.9617966731820408);
    p = FMA(p, z, 2.885390081790204);
    const double log = a == 0 ? -__builtin_inf() : a < __builtin_inff() ? FMA(s, p, n) : (double)a, t = (double)y * log;
    const double least = t < -200.0 ? -200.0 : t, c = least > 200.0 ? 200.0 : least, k = __builtin_rint(c), r = c - k;
    double e = FMA(1.5314970744420126e-05, r, 0.0001546713555432996);
    e = FMA(e, r, 0.001333343068847356);
    e = FMA(e, r, 0.009618036838012715);
    e = FMA(e, r, 0.05550410962685254);
    e = FMA(e, r, 0.2402265107630081);
    e = FMA(e, r, 0.6931471805416247);
    const float power = (float)(FMA(r, e, 1.0) * f64_of_bits((uint64_t)((int32_t)k + 1023) << 52));
    const float whole = __builtin_rintf(y), half = 0.5f * y;
    const _Bool odd = (y == whole) & (half != __builtin_rintf(half));
    const float of_part = a < __builtin_inff() && a != 0 ? __builtin_nanf("") : power;
    const float of_negative = y == whole ? (odd ? -power : power) : of_part;
    const float found = signbit_f32(x) ? of_negative : power;
    return (y == 0) | (x == 1) | ((a == 1) & (__builtin_fabsf(y) == __builtin_inff())) ? 1.0f : x != x ? x : found;
}
