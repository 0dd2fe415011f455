/* What printed kernels call. A unit gets the paragraphs that it uses, in this order: a paragraph is what lies between
   two empty lines, and may use those above it. Most functions have no branches: loops over them become vectors. */

union number { double f; int64_t i; };

static inline int64_t unknown(int64_t n) { __asm__("" : "+r"(n)); return n; }

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
    const uint32_t nan = -(uint32_t)(x != x);
    return (rounded & ~nan) | (nan & 0x7fc00000u);
}

/* of a float that is one */
static inline uint16_t store_bf16(float x) { return (uint16_t)(bits_of_f32(x) >> 16); }

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

/* of a float that is one */
static inline uint16_t store_f16(float x)
{
    const float a = __builtin_fabsf(x);
    const uint32_t u = bits_of_f32(a), sign = (bits_of_f32(x) >> 16) & 0x8000;
    const uint32_t small = bits_of_f32(a * 0x1p-112f) >> 13;
    const uint32_t finite = u < 0x38800000u ? small : (u - 0x38000000u) >> 13;
    return (uint16_t)(sign | (a != a ? 0x7e00 : a > 65504.0f ? 0x7c00 : finite));
}

static inline float max_f32(float a, float b) { return (a >= b) | (a != a) ? a : b; }

static inline float min_f32(float a, float b) { return (a <= b) | (a != a) ? a : b; }

static inline double max_f64(double a, double b) { return (a >= b) | (a != a) ? a : b; }

static inline double min_f64(double a, double b) { return (a <= b) | (a != a) ? a : b; }

/* Bytes of a vector, as long as there are; how many numbers of 32 and 64 bits are in one. */

#if defined(__AVX512F__)
#define VECTOR 64
#elif defined(__AVX__)
#define VECTOR 32
#else
#define VECTOR 16
#endif

#define LANES_32 (VECTOR / 4)

#define LANES_64 (VECTOR / 8)

/* The sum of a vector's lanes, by halves. */

static inline float sum_lanes_f32(const float *x)
{
#if VECTOR == 64
    float half[8];
#pragma omp simd
    for (int t = 0; t < 8; ++t) half[t] = x[t] + x[t + 8];
#else
    const float *half = x;
#endif
#if VECTOR == 16
    return (half[0] + half[2]) + (half[1] + half[3]);
#else
    return ((half[0] + half[4]) + (half[2] + half[6])) + ((half[1] + half[5]) + (half[3] + half[7]));
#endif
}

static inline double sum_lanes_f64(const double *x)
{
#if VECTOR == 64
    double half[4];
#pragma omp simd
    for (int t = 0; t < 4; ++t) half[t] = x[t] + x[t + 4];
#else
    const double *half = x;
#endif
#if VECTOR == 16
    return half[0] + half[1];
#else
    return (half[0] + half[2]) + (half[1] + half[3]);
#endif
}

/* Floats as integers of the same order, -0.0 below 0.0, NaN above all (for a maximum) or below (for a minimum): a
   maximum of integers is one instruction, and may be taken in any order. */

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
    const double more = top == low ? 0.69314718055994530942 : __builtin_log1p(__builtin_exp(low - top));
    return top != top ? top : top + more;
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

#define TRANSPOSE(bits) {                                                                                             \
    typedef uint##bits##_t row __attribute__((vector_size(bits), aligned(bits / 8), may_alias));                      \
    const uint##bits##_t *x = from;                                                                                   \
    uint##bits##_t *y = to;                                                                                           \
    row a = *(const row *)x, b = *(const row *)(x + along), c = *(const row *)(x + 2 * along);                        \
    row d = *(const row *)(x + 3 * along), e = *(const row *)(x + 4 * along), f = *(const row *)(x + 5 * along);      \
    row g = *(const row *)(x + 6 * along), h = *(const row *)(x + 7 * along);                                         \
    CROSS(a, b, 1, 0, 8, 2, 10, 4, 12, 6, 14) CROSS(c, d, 1, 0, 8, 2, 10, 4, 12, 6, 14)                               \
    CROSS(e, f, 1, 0, 8, 2, 10, 4, 12, 6, 14) CROSS(g, h, 1, 0, 8, 2, 10, 4, 12, 6, 14)                               \
    CROSS(a, c, 2, 0, 1, 8, 9, 4, 5, 12, 13) CROSS(b, d, 2, 0, 1, 8, 9, 4, 5, 12, 13)                                 \
    CROSS(e, g, 2, 0, 1, 8, 9, 4, 5, 12, 13) CROSS(f, h, 2, 0, 1, 8, 9, 4, 5, 12, 13)                                 \
    CROSS(a, e, 4, 0, 1, 2, 3, 8, 9, 10, 11) CROSS(b, f, 4, 0, 1, 2, 3, 8, 9, 10, 11)                                 \
    CROSS(c, g, 4, 0, 1, 2, 3, 8, 9, 10, 11) CROSS(d, h, 4, 0, 1, 2, 3, 8, 9, 10, 11)                                 \
    *(row *)y = a, *(row *)(y + down) = b, *(row *)(y + 2 * down) = c, *(row *)(y + 3 * down) = d;                    \
    *(row *)(y + 4 * down) = e, *(row *)(y + 5 * down) = f, *(row *)(y + 6 * down) = g, *(row *)(y + 7 * down) = h;   \
    }

static inline void transpose_u16(void *to, int64_t down, const void *from, int64_t along)
TRANSPOSE(16)

static inline void transpose_u32(void *to, int64_t down, const void *from, int64_t along)
TRANSPOSE(32)

static inline void transpose_u64(void *to, int64_t down, const void *from, int64_t along)
TRANSPOSE(64)
