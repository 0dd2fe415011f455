/* What printed kernels call. A unit gets the paragraphs that it uses, in this order: a paragraph is what lies between two
   empty lines, and may use those above it. All functions have no branches, so that loops over them become vectors. */

union number { double f; int64_t i; };

static inline uint32_t bits_of_f32(float x) { union { float f; uint32_t u; } both = {x}; return both.u; }

static inline float f32_of_bits(uint32_t x) { union { uint32_t u; float f; } both = {x}; return both.f; }

static inline uint64_t bits_of_f64(double x) { union { double f; uint64_t u; } both = {x}; return both.u; }

static inline double f64_of_bits(uint64_t x) { union { uint64_t u; double f; } both = {x}; return both.f; }

/* fused multiply-add where the machine has it: libm's would be a call */
#ifdef __FMA__
#define FMAF(a, b, c) __builtin_fmaf(a, b, c)
#define FMA(a, b, c) __builtin_fma(a, b, c)
#elif defined(__ARM_FEATURE_FMA)
#define FMAF(a, b, c) __builtin_fmaf(a, b, c)
#define FMA(a, b, c) __builtin_fma(a, b, c)
#else
#define FMAF(a, b, c) ((a) * (b) + (c))
#define FMA(a, b, c) ((a) * (b) + (c))
#endif

static inline float load_bf16(uint16_t x) { return f32_of_bits((uint32_t)x << 16); }

/* to the nearest bfloat16, ties to even, as the upper half of a float */
static inline uint32_t nearest_bf16(float x)
{
    const uint32_t u = bits_of_f32(x), rounded = u + 0x7fff + ((u >> 16) & 1);
    return x != x ? 0x7fc00000u : rounded;
}

static inline uint16_t store_bf16(float x) { return (uint16_t)(nearest_bf16(x) >> 16); }

static inline float round_bf16(float x) { return f32_of_bits(nearest_bf16(x) & 0xffff0000u); }

/* the float of a float16: its bits, moved, are the value times 2^-112, also for the smallest ones */
static inline float load_f16(uint16_t x)
{
    const uint32_t magnitude = (uint32_t)(x & 0x7fff) << 13, sign = (uint32_t)(x & 0x8000) << 16;
    const uint32_t finite = bits_of_f32(f32_of_bits(magnitude) * 0x1p112f);
    return f32_of_bits((magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : finite) | sign);
}

/* to the nearest float16, ties to even: below 2^-14 the last bit is always 2^-24, that of a float in [0.5, 1) */
static inline float round_f16(float x)
{
    const float a = __builtin_fabsf(x);
    const uint32_t u = bits_of_f32(a), rounded = (u + 0xfff + ((u >> 13) & 1)) & ~0x1fffu;
    const float finite = a < 0x1p-14f ? (a + 0.5f) - 0.5f : f32_of_bits(rounded);
    return __builtin_copysignf(x != x ? x : finite >= 65520.0f ? __builtin_inff() : finite, x);
}

static inline uint16_t store_f16(float x)
{
    const float a = __builtin_fabsf(round_f16(x));
    const uint32_t u = bits_of_f32(a), sign = (bits_of_f32(x) >> 16) & 0x8000;
    const uint32_t small = bits_of_f32(a * 0x1p-112f) >> 13;
    return (uint16_t)(sign | (a != a ? 0x7e00 : a > 65504.0f ? 0x7c00 : u < 0x38800000u ? small : (u - 0x38000000u) >> 13));
}

static inline float max_f32(float a, float b) { return (a > b) | (a != a) ? a : b; }

static inline float min_f32(float a, float b) { return (a < b) | (a != a) ? a : b; }

static inline double max_f64(double a, double b) { return (a > b) | (a != a) ? a : b; }

static inline double min_f64(double a, double b) { return (a < b) | (a != a) ? a : b; }

/* Floats as integers of the same order, -0.0 below 0.0, NaN above all (of a maximum) or below (of a minimum): a maximum of
   integers is one instruction, and may be taken in any order. */

static inline int32_t max_key_f32(float x)
{
    const int32_t u = (int32_t)bits_of_f32(x), nan = -(x != x);
    return ((u ^ ((u >> 31) & INT32_MAX)) & ~nan) | (nan & INT32_MAX);
}

static inline int32_t min_key_f32(float x)
{
    const int32_t u = (int32_t)bits_of_f32(x), nan = -(x != x);
    return ((u ^ ((u >> 31) & INT32_MAX)) & ~nan) | (nan & INT32_MIN);
}

static inline float key_value_f32(int32_t key) { return f32_of_bits((uint32_t)(key ^ ((key >> 31) & INT32_MAX))); }

static inline int64_t max_key_f64(double x)
{
    const int64_t u = (int64_t)bits_of_f64(x), nan = -(int64_t)(x != x);
    return ((u ^ ((u >> 63) & INT64_MAX)) & ~nan) | (nan & INT64_MAX);
}

static inline int64_t min_key_f64(double x)
{
    const int64_t u = (int64_t)bits_of_f64(x), nan = -(int64_t)(x != x);
    return ((u ^ ((u >> 63) & INT64_MAX)) & ~nan) | (nan & INT64_MIN);
}

static inline double key_value_f64(int64_t key) { return f64_of_bits((uint64_t)(key ^ ((key >> 63) & INT64_MAX))); }

static inline float fmax_f32(float a, float b) { return (a > b) | (b != b) ? a : b; }

static inline float fmin_f32(float a, float b) { return (a < b) | (b != b) ? a : b; }

static inline double fmax_f64(double a, double b) { return (a > b) | (b != b) ? a : b; }

static inline double fmin_f64(double a, double b) { return (a < b) | (b != b) ? a : b; }

static inline _Bool signbit_f32(float x) { return (int32_t)bits_of_f32(x) < 0; }

static inline _Bool signbit_f64(double x) { return (int64_t)bits_of_f64(x) < 0; }

/* Integers: a divisor of 0 gives 0 (the kernel says so in its answer), the lowest number by -1 is itself. */

static inline int32_t trunc_div_i32(int32_t a, int32_t b) { return b == -1 ? -a : b == 0 ? 0 : a / b; }

static inline int64_t trunc_div_i64(int64_t a, int64_t b) { return b == -1 ? -a : b == 0 ? 0 : a / b; }

static inline uint64_t trunc_div_u64(uint64_t a, uint64_t b) { return b == 0 ? 0 : a / b; }

static inline int32_t fmod_i32(int32_t a, int32_t b) { return b == -1 || b == 0 ? 0 : a % b; }

static inline int64_t fmod_i64(int64_t a, int64_t b) { return b == -1 || b == 0 ? 0 : a % b; }

static inline uint64_t fmod_u64(uint64_t a, uint64_t b) { return b == 0 ? 0 : a % b; }

static inline int32_t remainder_i32(int32_t a, int32_t b)
{
    const int32_t r = fmod_i32(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static inline int64_t remainder_i64(int64_t a, int64_t b)
{
    const int64_t r = fmod_i64(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static inline uint64_t remainder_u64(uint64_t a, uint64_t b) { return fmod_u64(a, b); }

static inline int32_t floor_div_i32(int32_t a, int32_t b)
{
    return trunc_div_i32(a, b) - (fmod_i32(a, b) != 0 && (a < 0) != (b < 0));
}

static inline int64_t floor_div_i64(int64_t a, int64_t b)
{
    return trunc_div_i64(a, b) - (fmod_i64(a, b) != 0 && (a < 0) != (b < 0));
}

static inline uint64_t floor_div_u64(uint64_t a, uint64_t b) { return trunc_div_u64(a, b); }

/* b < 0: 0, but for a = 1 and -1 */
static inline int64_t pow_i64(int64_t a, int64_t b)
{
    int64_t power = 1;
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
    for (; b; b >>= 1, a *= a) power *= b & 1 ? a : 1;
    return power;
}

/* Index expressions: floor(a / b) and its remainder for b > 0. */

static inline int64_t quotient(int64_t a, int64_t b) { return a / b - (a % b < 0); }

static inline int64_t modulo(int64_t a, int64_t b) { return a % b + (a % b < 0 ? b : 0); }

static inline int64_t lower(int64_t a, int64_t b) { return a < b ? a : b; }

static inline int64_t upper(int64_t a, int64_t b) { return a > b ? a : b; }

/* Python's: of the sign of b */
static inline float remainder_f32(float a, float b)
{
    const float r = __builtin_fmodf(a, b);
    return (r != 0) & ((b < 0) != (r < 0)) ? r + b : r;
}

static inline double remainder_f64(double a, double b)
{
    const double r = __builtin_fmod(a, b);
    return (r != 0) & ((b < 0) != (r < 0)) ? r + b : r;
}

static inline float fmod_f32(float a, float b) { return __builtin_fmodf(a, b); }

static inline double fmod_f64(double a, double b) { return __builtin_fmod(a, b); }

/* Python's: the quotient that belongs to the remainder, made an integer */
static inline float floor_div_f32(float a, float b)
{
    const float r = __builtin_fmodf(a, b);
    const float q = (a - r) / b - ((r != 0) & ((b < 0) != (r < 0)) ? 1.0f : 0.0f), down = __builtin_floorf(q);
    const float whole = q != 0 ? down + (q - down > 0.5f ? 1.0f : 0.0f) : __builtin_copysignf(0.0f, a / b);
    return b == 0 ? a / b : whole;
}

static inline double floor_div_f64(double a, double b)
{
    const double r = __builtin_fmod(a, b);
    const double q = (a - r) / b - ((r != 0) & ((b < 0) != (r < 0)) ? 1.0 : 0.0), down = __builtin_floor(q);
    const double whole = q != 0 ? down + (q - down > 0.5 ? 1.0 : 0.0) : __builtin_copysign(0.0, a / b);
    return b == 0 ? a / b : whole;
}

/* the same, each step rounded */
static inline float floor_div_bf16(float a, float b)
{
    const float r = __builtin_fmodf(a, b), q = round_bf16(round_bf16(a - r) / b);
    const float p = (r != 0) & ((b < 0) != (r < 0)) ? round_bf16(q - 1.0f) : q, down = __builtin_floorf(p);
    const float whole = p != 0 ? (p - down > 0.5f ? round_bf16(down + 1.0f) : down) : __builtin_copysignf(0.0f, a / b);
    return b == 0 ? a / b : whole;
}

static inline float floor_div_f16(float a, float b)
{
    const float r = __builtin_fmodf(a, b), q = round_f16(round_f16(a - r) / b);
    const float p = (r != 0) & ((b < 0) != (r < 0)) ? round_f16(q - 1.0f) : q, down = __builtin_floorf(p);
    const float whole = p != 0 ? (p - down > 0.5f ? round_f16(down + 1.0f) : down) : __builtin_copysignf(0.0f, a / b);
    return b == 0 ? a / b : whole;
}

static inline float nextafter_f32(float a, float b) { return __builtin_nextafterf(a, b); }

static inline double nextafter_f64(double a, double b) { return __builtin_nextafter(a, b); }

static inline float nextafter_bf16(float a, float b)
{
    const uint32_t away = bits_of_f32(a) + 0x10000u, towards = bits_of_f32(a) - 0x10000u;
    const uint32_t next = a == 0 ? (bits_of_f32(b) & 0x80000000u) | 0x10000u : (a < b) == (a > 0) ? away : towards;
    return (a != a) | (b != b) ? a + b : a == b ? b : f32_of_bits(next);
}

static inline double sigmoid_f64(double x) { return 1.0 / (1.0 + exp_f64(-x)); }

static inline double logaddexp_f64(double a, double b)
{
    const double top = max_f64(a, b), low = a > b ? b : a;
    return top == low || top != top ? top + (top == low ? 0.69314718055994530942 : 0) : top + __builtin_log1p(__builtin_exp(low - top));
}

/* Winitzki's approximation (2008) and three steps of Halley's method */
static inline double erfinv_f64(double x)
{
    const double a = __builtin_fabs(x), log = __builtin_log1p(-a * a), c = 4.3307467508 + log / 2;
    double y = __builtin_sqrt(__builtin_sqrt(c * c - log / 0.147) - c);
    for (int n = 0; n < 3; ++n) {
        const double over = a < 0.5 ? __builtin_erf(y) - a : (1 - a) - __builtin_erfc(y);
        const double step = over / (1.12837916709551257390 * __builtin_exp(-y * y));
        y -= step / (1 + y * step);
    }
    return a < 1 ? __builtin_copysign(y, x) : a == 1 ? __builtin_copysign(__builtin_inf(), x) : __builtin_nan("");
}

static inline float erfinv_f32(float x) { return (float)erfinv_f64(x); }

/* 8 x 8 elements: rows of `from`, `along` apart, become columns of `to`, whose rows are `down` apart. At each step the
   parts of two rows that lie across the diagonal change places: elements, pairs, fours. */

#define CROSS(p, q, by, i, j, k, l, m, n, o, r) { \
        const row low = __builtin_shufflevector(p, q, i, j, k, l, m, n, o, r); \
        q = __builtin_shufflevector(p, q, i + by, j + by, k + by, l + by, m + by, n + by, o + by, r + by); \
        p = low; \
    }

static inline void transpose_u16(void *to, int64_t down, const void *from, int64_t along)
{
    typedef uint16_t row __attribute__((vector_size(16), aligned(2), may_alias));
    const uint16_t *x = from;
    uint16_t *y = to;
    row a = *(const row *)x, b = *(const row *)(x + along), c = *(const row *)(x + 2 * along);
    row d = *(const row *)(x + 3 * along), e = *(const row *)(x + 4 * along), f = *(const row *)(x + 5 * along);
    row g = *(const row *)(x + 6 * along), h = *(const row *)(x + 7 * along);
    CROSS(a, b, 1, 0, 8, 2, 10, 4, 12, 6, 14) CROSS(c, d, 1, 0, 8, 2, 10, 4, 12, 6, 14)
    CROSS(e, f, 1, 0, 8, 2, 10, 4, 12, 6, 14) CROSS(g, h, 1, 0, 8, 2, 10, 4, 12, 6, 14)
    CROSS(a, c, 2, 0, 1, 8, 9, 4, 5, 12, 13) CROSS(b, d, 2, 0, 1, 8, 9, 4, 5, 12, 13)
    CROSS(e, g, 2, 0, 1, 8, 9, 4, 5, 12, 13) CROSS(f, h, 2, 0, 1, 8, 9, 4, 5, 12, 13)
    CROSS(a, e, 4, 0, 1, 2, 3, 8, 9, 10, 11) CROSS(b, f, 4, 0, 1, 2, 3, 8, 9, 10, 11)
    CROSS(c, g, 4, 0, 1, 2, 3, 8, 9, 10, 11) CROSS(d, h, 4, 0, 1, 2, 3, 8, 9, 10, 11)
    *(row *)y = a, *(row *)(y + down) = b, *(row *)(y + 2 * down) = c, *(row *)(y + 3 * down) = d;
    *(row *)(y + 4 * down) = e, *(row *)(y + 5 * down) = f, *(row *)(y + 6 * down) = g, *(row *)(y + 7 * down) = h;
}

static inline void transpose_u32(void *to, int64_t down, const void *from, int64_t along)
{
    typedef uint32_t row __attribute__((vector_size(32), aligned(4), may_alias));
    const uint32_t *x = from;
    uint32_t *y = to;
    row a = *(const row *)x, b = *(const row *)(x + along), c = *(const row *)(x + 2 * along);
    row d = *(const row *)(x + 3 * along), e = *(const row *)(x + 4 * along), f = *(const row *)(x + 5 * along);
    row g = *(const row *)(x + 6 * along), h = *(const row *)(x + 7 * along);
    CROSS(a, b, 1, 0, 8, 2, 10, 4, 12, 6, 14) CROSS(c, d, 1, 0, 8, 2, 10, 4, 12, 6, 14)
    CROSS(e, f, 1, 0, 8, 2, 10, 4, 12, 6, 14) CROSS(g, h, 1, 0, 8, 2, 10, 4, 12, 6, 14)
    CROSS(a, c, 2, 0, 1, 8, 9, 4, 5, 12, 13) CROSS(b, d, 2, 0, 1, 8, 9, 4, 5, 12, 13)
    CROSS(e, g, 2, 0, 1, 8, 9, 4, 5, 12, 13) CROSS(f, h, 2, 0, 1, 8, 9, 4, 5, 12, 13)
    CROSS(a, e, 4, 0, 1, 2, 3, 8, 9, 10, 11) CROSS(b, f, 4, 0, 1, 2, 3, 8, 9, 10, 11)
    CROSS(c, g, 4, 0, 1, 2, 3, 8, 9, 10, 11) CROSS(d, h, 4, 0, 1, 2, 3, 8, 9, 10, 11)
    *(row *)y = a, *(row *)(y + down) = b, *(row *)(y + 2 * down) = c, *(row *)(y + 3 * down) = d;
    *(row *)(y + 4 * down) = e, *(row *)(y + 5 * down) = f, *(row *)(y + 6 * down) = g, *(row *)(y + 7 * down) = h;
}

static inline void transpose_u64(void *to, int64_t down, const void *from, int64_t along)
{
    typedef uint64_t row __attribute__((vector_size(64), aligned(8), may_alias));
    const uint64_t *x = from;
    uint64_t *y = to;
    row a = *(const row *)x, b = *(const row *)(x + along), c = *(const row *)(x + 2 * along);
    row d = *(const row *)(x + 3 * along), e = *(const row *)(x + 4 * along), f = *(const row *)(x + 5 * along);
    row g = *(const row *)(x + 6 * along), h = *(const row *)(x + 7 * along);
    CROSS(a, b, 1, 0, 8, 2, 10, 4, 12, 6, 14) CROSS(c, d, 1, 0, 8, 2, 10, 4, 12, 6, 14)
    CROSS(e, f, 1, 0, 8, 2, 10, 4, 12, 6, 14) CROSS(g, h, 1, 0, 8, 2, 10, 4, 12, 6, 14)
    CROSS(a, c, 2, 0, 1, 8, 9, 4, 5, 12, 13) CROSS(b, d, 2, 0, 1, 8, 9, 4, 5, 12, 13)
    CROSS(e, g, 2, 0, 1, 8, 9, 4, 5, 12, 13) CROSS(f, h, 2, 0, 1, 8, 9, 4, 5, 12, 13)
    CROSS(a, e, 4, 0, 1, 2, 3, 8, 9, 10, 11) CROSS(b, f, 4, 0, 1, 2, 3, 8, 9, 10, 11)
    CROSS(c, g, 4, 0, 1, 2, 3, 8, 9, 10, 11) CROSS(d, h, 4, 0, 1, 2, 3, 8, 9, 10, 11)
    *(row *)y = a, *(row *)(y + down) = b, *(row *)(y + 2 * down) = c, *(row *)(y + 3 * down) = d;
    *(row *)(y + 4 * down) = e, *(row *)(y + 5 * down) = f, *(row *)(y + 6 * down) = g, *(row *)(y + 7 * down) = h;
}

/* The functions of floats that neural networks are made of. Polynomials: minimax, by Remez' exchange, their coefficients
   rounded to float. `c_preamble.ERRORS` has the largest error of each, which a test measures. */

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

/* e^(n ln(2) + r) with n an integer and |r| <= ln(2)/2 */
static inline float exp_f32(float x)
{
    const float least = x < -104.0f ? -104.0f : x, c = least > 89.0f ? 89.0f : least, n = __builtin_rintf(c * 1.44269504f);
    const float r = FMAF(n, -1.42860677e-06f, FMAF(n, -0.693145752f, c));
    return scale_f32(FMAF(r * r, exp_rest_f32(r), r) + 1.0f, (int32_t)n);
}

/* 2^n e^r - 1 = 2 (2^(n-1) (e^r - 1) + (2^(n-1) - 1/2)) */
static inline float expm1_f32(float x)
{
    const float least = x < -20.0f ? -20.0f : x, c = least > 89.0f ? 89.0f : least, n = __builtin_rintf(c * 1.44269504f);
    const float r = FMAF(n, -1.42860677e-06f, FMAF(n, -0.693145752f, c)), e = FMAF(r * r, exp_rest_f32(r), r);
    const float power = f32_of_bits((uint32_t)((int32_t)n + 126) << 23), y = 2.0f * FMAF(power, e, power - 0.5f);
    return n == 0 ? (x == 0 ? x : e) : y;
}

static inline float exp2_f32(float x)
{
    const float least = x < -151.0f ? -151.0f : x, c = least > 129.0f ? 129.0f : least, n = __builtin_rintf(c), r = c - n;
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
    const float y = a < 0.6f ? FMAF(p * s, a, a) : 1.0f - 2.0f / (exp_f32(2.0f * a) + 1.0f);
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
    const float y = a < 1.0f ? FMAF(near, a, a) : 1.0f - exp_f32(-far);
    return __builtin_copysignf(y, x);
}

/* An angle of the same sine and cosine: from 2^50 on the bits of 1/(2 pi) from the one of x's last digit on, times x's
   digits, are the part of a turn: 2^-37 off. */
static inline double angle_f32(float x)
{
    const uint32_t u = bits_of_f32(x);
    const uint64_t digits = (u & 0x7fffffu) | 0x800000u, e = ((u >> 23) & 0xff) - 150, low = e & 63;
    const uint64_t a = e < 64 ? 0x28be60db9391054au : 0x7f09d5f47d4d3770u, b = e < 64 ? 0x7f09d5f47d4d3770u : 0x36d8a5664f10e410u;
    const double turn = (double)(int64_t)(digits * ((a << low) | (b >> 1 >> (63 - low)))) * 3.4061215800865545e-19;
    const double big = x < 0 ? -turn : turn;
    return __builtin_fabsf(x) < 0x1p50f ? (double)x : x - x == 0 ? big : __builtin_nan("");
}

/* sin(q pi/2 + r) is one of sin(r), cos(r) and their negatives; r is right to 2^-52, being a double's */
static inline float turned_f32(float x, int32_t quarters)
{
    const double angle = angle_f32(x), q = __builtin_rint(angle * 0.6366197723675814);
    const float r = (float)FMA(q, -6.123233995736766e-17, FMA(q, -1.5707963267948966, angle)), s = r * r;
    const int64_t turns = (int64_t)q + quarters;
    const float sine = FMAF(r * s, FMAF(FMAF(-0.000195166562f, s, 0.00833217334f), s, -0.166666552f), r);
    const float cosine = FMAF(s * s, FMAF(FMAF(2.44377316e-05f, s, -0.00138873619f), s, 0.0416666456f), FMAF(s, -0.5f, 1.0f));
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
    const float of_negative = y == whole ? (odd ? -power : power) : a < __builtin_inff() && a != 0 ? __builtin_nanf("") : power;
    const float found = signbit_f32(x) ? of_negative : power;
    return (y == 0) | (x == 1) | ((a == 1) & (__builtin_fabsf(y) == __builtin_inff())) ? 1.0f : x != x ? x : found;
}
