"""Special functions as formulas over elementary ones (xla/hlo/builder/lib/math.cc names the methods)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlanb.hlo import HloInstruction
from xlanb.shape import PrimitiveType
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import filled, sum_type
from xlanb.tf2xla.kernels.random import erf_inv
from xlanb.tf2xla.registry import register

# Lanczos' approximation of the gamma function with g = 7 and 9 terms (Godfrey, 2001)
_LANCZOS_G = 7
_LANCZOS_FIRST = 0.99999999999980993227684700473478
_LANCZOS = (
    676.520368121885098567009190444019, -1259.13921672240287047156078755283, 771.3234287776530788486528258894,
    -176.61502916214059906584551354, 12.507343278686904814458936853, -0.13857109526572011689554707,
    9.984369578019570859563e-6, 1.50563273514931155834e-7,
)  # fmt: skip

# Chebyshev coefficients for exp(-|x|) I0(x) and exp(-|x|) I1(x) (Cephes, i0.c and i1.c): first for |x| <= 8, then for larger
_I0_NEAR = (
    -4.41534164647933937950e-18, 3.33079451882223809783e-17, -2.43127984654795469359e-16, 1.71539128555513303061e-15,
    -1.16853328779934516808e-14, 7.67618549860493561688e-14, -4.85644678311192946090e-13, 2.95505266312963983461e-12,
    -1.72682629144155570723e-11, 9.67580903537323691224e-11, -5.18979560163526290666e-10, 2.65982372468238665035e-9,
    -1.30002500998624804212e-8, 6.04699502254191894932e-8, -2.67079385394061173391e-7, 1.11738753912010371815e-6,
    -4.41673835845875056359e-6, 1.64484480707288970893e-5, -5.75419501008210370398e-5, 1.88502885095841655729e-4,
    -5.76375574538582365885e-4, 1.63947561694133579842e-3, -4.32430999505057594430e-3, 1.05464603945949983183e-2,
    -2.37374148058994688156e-2, 4.93052842396707084878e-2, -9.49010970480476444210e-2, 1.71620901522208775349e-1,
    -3.04682672343198398683e-1, 6.76795274409476084995e-1,
)  # fmt: skip
_I0_FAR = (
    -7.23318048787475395456e-18, -4.83050448594418207126e-18, 4.46562142029675999901e-17, 3.46122286769746109310e-17,
    -2.82762398051658348494e-16, -3.42548561967721913462e-16, 1.77256013305652638360e-15, 3.81168066935262242075e-15,
    -9.55484669882830764870e-15, -4.15056934728722208663e-14, 1.54008621752140982691e-14, 3.85277838274214270114e-13,
    7.18012445138366623367e-13, -1.79417853150680611778e-12, -1.32158118404477131188e-11, -3.14991652796324136454e-11,
    1.18891471078464383424e-11, 4.94060238822496958910e-10, 3.39623202570838634515e-9, 2.26666899049817806459e-8,
    2.04891858946906374183e-7, 2.89137052083475648297e-6, 6.88975834691682398426e-5, 3.36911647825569408990e-3,
    8.04490411014108831608e-1,
)  # fmt: skip
_I1_NEAR = (
    2.77791411276104639959e-18, -2.11142121435816608115e-17, 1.55363195773620046921e-16, -1.10559694773538630805e-15,
    7.60068429473540693410e-15, -5.04218550472791168711e-14, 3.22379336594557470981e-13, -1.98397439776494371520e-12,
    1.17361862988909016308e-11, -6.66348972350202774223e-11, 3.62559028155211703701e-10, -1.88724975172282928790e-9,
    9.38153738649577178388e-9, -4.44505912879632808065e-8, 2.00329475355213526229e-7, -8.56872026469545474066e-7,
    3.47025130813767847674e-6, -1.32731636560394358279e-5, 4.78156510755005422638e-5, -1.61760815825896745588e-4,
    5.12285956168575772895e-4, -1.51357245063125314899e-3, 4.15642294431288815669e-3, -1.05640848946261981558e-2,
    2.47264490306265168283e-2, -5.29459812080949914269e-2, 1.02643658689847095384e-1, -1.76416518357834055153e-1,
    2.52587186443633654823e-1,
)  # fmt: skip
_I1_FAR = (
    7.51729631084210481353e-18, 4.41434832307170791151e-18, -4.65030536848935832153e-17, -3.20952592199342395980e-17,
    2.96262899764595013876e-16, 3.30820231092092828324e-16, -1.88035477551078244854e-15, -3.81440307243700780478e-15,
    1.04202769841288027642e-14, 4.27244001671195135429e-14, -2.10154184277266431302e-14, -4.08355111109219731823e-13,
    -7.19855177624590851209e-13, 2.03562854414708950722e-12, 1.41258074366137813316e-11, 3.25260358301548823856e-11,
    -1.89749581235054123450e-11, -5.58974346219658380687e-10, -3.83538038596423702205e-9, -2.63146884688951950684e-8,
    -2.51223623787020892529e-7, -3.88256480887769039346e-6, -1.10588938762623716291e-4, -9.76109749136146840777e-3,
    7.78576235018280120474e-1,
)  # fmt: skip


def _widened(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    return ctx.b.convert(x, sum_type(x.array_shape.element_type))


def _narrowed(ctx: OpContext, x: HloInstruction) -> HloInstruction:
    return ctx.b.convert(x, ctx.shape(0).element_type)


def _minus(ctx: OpContext, value: float, x: HloInstruction) -> HloInstruction:
    return ctx.b.subtract(filled(ctx, x, value), x)


@register("Erfinv")
def _erfinv(ctx: OpContext) -> HloInstruction:
    return _narrowed(ctx, erf_inv(ctx, _widened(ctx)))


@register("Ndtri")
def _ndtri(ctx: OpContext) -> HloInstruction:
    """sqrt(2) erfinv(2 x - 1)"""
    x = _widened(ctx)
    inner = ctx.b.subtract(ctx.b.multiply(x, filled(ctx, x, 2)), filled(ctx, x, 1))
    return _narrowed(ctx, ctx.b.multiply(erf_inv(ctx, inner), filled(ctx, x, math.sqrt(2))))


def _lanczos(ctx: OpContext, z: HloInstruction) -> tuple[HloInstruction, HloInstruction]:
    """The series A(z) and its derivative, for z >= -1/2."""
    b = ctx.b
    total, slope = filled(ctx, z, _LANCZOS_FIRST), filled(ctx, z, 0)
    for index, c in enumerate(_LANCZOS):
        bottom = b.add(z, filled(ctx, z, index + 1))
        term = b.divide(filled(ctx, z, c), bottom)
        total, slope = b.add(total, term), b.subtract(slope, b.divide(term, bottom))
    return total, slope


@register("Lgamma")
def _lgamma(ctx: OpContext) -> HloInstruction:
    return _narrowed(ctx, lgamma(ctx, _widened(ctx)))


def lgamma(ctx: OpContext, x: HloInstruction) -> HloInstruction:
    """The logarithm of |gamma(x)|; below 1/2 by reflection, log(pi / |sin(pi x)|) less that of 1 - x."""
    b = ctx.b
    reflected = b.compare(x, filled(ctx, x, 0.5), "LT")
    z = b.select(reflected, b.negate(x), b.subtract(x, filled(ctx, x, 1)))
    series, _ = _lanczos(ctx, z)
    t = b.add(z, filled(ctx, z, _LANCZOS_G + 0.5))
    # log t as log(g + 1/2) + log1p(z / (g + 1/2)), and one product, keep what large terms would cancel
    log_t = b.add(filled(ctx, z, math.log(_LANCZOS_G + 0.5)), b.log1p(b.divide(z, filled(ctx, z, _LANCZOS_G + 0.5))))
    log_y = b.add(
        b.add(
            b.multiply(b.subtract(b.add(z, filled(ctx, z, 0.5)), b.divide(t, log_t)), log_t),
            filled(ctx, z, math.log(2 * math.pi) / 2),
        ),
        b.log(series),
    )
    size = b.abs(x)
    fraction = b.subtract(size, b.floor(size))
    # sin(pi f) has its symmetry about 1/2
    near = b.select(b.compare(fraction, filled(ctx, x, 0.5), "GT"), _minus(ctx, 1, fraction), fraction)
    log_sine = b.log(b.sin(b.multiply(near, filled(ctx, x, math.pi))))
    mirrored = b.subtract(_minus(ctx, math.log(math.pi), log_sine), log_y)
    mirrored = b.select(b.is_finite(log_sine), mirrored, b.negate(log_sine))
    result = b.select(reflected, mirrored, log_y)
    infinite = b.compare(size, filled(ctx, x, math.inf), "EQ")
    return b.select(infinite, filled(ctx, x, math.inf), result)


@register("Digamma")
def _digamma(ctx: OpContext) -> HloInstruction:
    return _narrowed(ctx, digamma(ctx, _widened(ctx)))


def digamma(ctx: OpContext, x: HloInstruction) -> HloInstruction:
    """The derivative of lgamma; below 1/2 by reflection, that of 1 - x less pi / tan(pi x); NaN at 0, -1, -2, ..."""
    b = ctx.b
    reflected = b.compare(x, filled(ctx, x, 0.5), "LT")
    z = b.select(reflected, b.negate(x), b.subtract(x, filled(ctx, x, 1)))
    series, slope = _lanczos(ctx, z)
    t = b.add(z, filled(ctx, z, _LANCZOS_G + 0.5))
    log_t = b.add(filled(ctx, z, math.log(_LANCZOS_G + 0.5)), b.log1p(b.divide(z, filled(ctx, z, _LANCZOS_G + 0.5))))
    y = b.subtract(b.add(log_t, b.divide(slope, series)), b.divide(filled(ctx, z, _LANCZOS_G), t))
    # what of x is beyond the nearest integer: the tangent has period 1
    part = b.multiply(b.add(x, b.abs(b.floor(b.add(x, filled(ctx, x, 0.5))))), filled(ctx, x, math.pi))
    mirrored = b.subtract(y, b.divide(b.multiply(filled(ctx, x, math.pi), b.cos(part)), b.sin(part)))
    pole = b.and_(b.compare(x, filled(ctx, x, 0), "LE"), b.compare(x, b.floor(x), "EQ"))
    return b.select(pole, filled(ctx, x, math.nan), b.select(reflected, mirrored, y))


def _chebyshev(ctx: OpContext, x: HloInstruction, coefficients: Sequence[float]) -> HloInstruction:
    """Clenshaw's recurrence, the highest coefficient first, the last halved."""
    b = ctx.b
    b0, b1, b2 = (filled(ctx, x, 0) for _ in range(3))
    for c in coefficients:
        b2, b1 = b1, b0
        b0 = b.add(b.subtract(b.multiply(x, b1), b2), filled(ctx, x, c))
    return b.multiply(b.subtract(b0, b2), filled(ctx, x, 0.5))


def _bessel(
    ctx: OpContext, near: Sequence[float], far: Sequence[float]
) -> tuple[HloInstruction, HloInstruction, HloInstruction]:
    """The widened input, and the approximations of exp(-|x|) I(x) for |x| up to 8 and beyond."""
    x = _widened(ctx)
    b = ctx.b
    size = b.abs(x)
    inside = _chebyshev(ctx, b.subtract(b.multiply(size, filled(ctx, x, 0.5)), filled(ctx, x, 2)), near)
    outside = b.divide(
        _chebyshev(ctx, b.subtract(b.divide(filled(ctx, x, 32), size), filled(ctx, x, 2)), far), b.sqrt(size)
    )
    return x, inside, outside


@register("BesselI0e")
def _bessel_i0e(ctx: OpContext) -> HloInstruction:
    x, near, far = _bessel(ctx, _I0_NEAR, _I0_FAR)
    return _narrowed(ctx, ctx.b.select(ctx.b.compare(ctx.b.abs(x), filled(ctx, x, 8), "LE"), near, far))


@register("BesselI1e")
def _bessel_i1e(ctx: OpContext) -> HloInstruction:
    x, near, far = _bessel(ctx, _I1_NEAR, _I1_FAR)
    b = ctx.b
    size = b.abs(x)
    value = b.select(b.compare(size, filled(ctx, x, 8), "LE"), b.multiply(size, near), far)
    return _narrowed(ctx, b.select(b.compare(x, filled(ctx, x, 0), "LT"), b.negate(value), value))


@register("BesselI0", "BesselI1", is_compilable=False)
def _bessel_grown(ctx: OpContext) -> HloInstruction:
    """What the scaled function is, times the exponential it was scaled by."""
    scaled = _bessel_i0e(ctx) if ctx.op.type == "BesselI0" else _bessel_i1e(ctx)
    return ctx.b.multiply(scaled, ctx.b.exp(ctx.b.abs(ctx.input(0))))


# Cephes, ndtrf.c: erfc of |x| >= 1 in single precision, and its kin in double precision (ndtr.c)
_ERFC_MIDDLE = (
    2.326819970068386e-2, -1.387039388740657e-1, 3.687424674597105e-1, -5.824733027278666e-1, 6.210004621745983e-1,
    -4.944515323274145e-1, 3.404879937665872e-1, -2.741127028184656e-1, 5.638259427386472e-1,
)  # fmt: skip
_ERFC_FAR = (
    -1.047766399936249e1, 1.297719955372516e1, -7.495518717768503, 2.921019019210786, -1.015265279202700,
    4.218463358204948e-1, -2.820767439740514e-1, 5.641895067754075e-1,
)  # fmt: skip
_DOUBLE_P = (
    2.46196981473530512524e-10, 5.64189564831068821977e-1, 7.46321056442269912687, 4.86371970985681366614e1, 1.96520832956077098242e2,
    5.26445194995477358631e2, 9.34528527171957607540e2, 1.02755188689515710272e3, 5.57535335369399327526e2,
)  # fmt: skip
_DOUBLE_Q = (
    1.0, 1.32281951154744992508e1, 8.67072140885989742329e1, 3.54937778887819891062e2, 9.75708501743205489753e2,
    1.82390916687909736289e3, 2.24633760818710981792e3, 1.65666309194161350182e3, 5.57535340817727675546e2,
)  # fmt: skip
_DOUBLE_R = (
    5.64189583547755073984e-1, 1.27536670759978104416, 5.01905042251180477414, 6.16021097993053585195, 7.40974269950448939160,
    2.97886665372100240670,
)  # fmt: skip
_DOUBLE_S = (
    1.0, 2.26052863220117276590, 9.39603524938001434673, 1.20489539808096656605e1, 1.70814450747565897222e1, 9.60896809063285878198,
    3.36907645100081516050,
)  # fmt: skip


def _polynomial(ctx: OpContext, x: HloInstruction, coefficients: Sequence[float]) -> HloInstruction:
    """Horner's rule, the highest power first."""
    total = filled(ctx, x, coefficients[0])
    for c in coefficients[1:]:
        total = ctx.b.add(ctx.b.multiply(total, x), filled(ctx, x, c))
    return total


@register("Erfc")
def _erfc(ctx: OpContext) -> HloInstruction:
    """1 - erf(x) for |x| < 1; beyond, exp(-x^2) times an approximation, so that small values keep their digits."""
    x = _widened(ctx)
    b = ctx.b
    size = b.abs(x)
    bell = b.exp(b.negate(b.multiply(x, x)))
    if x.array_shape.element_type is PrimitiveType.F64:
        middle = b.divide(_polynomial(ctx, size, _DOUBLE_P), _polynomial(ctx, size, _DOUBLE_Q))
        far = b.divide(_polynomial(ctx, size, _DOUBLE_R), _polynomial(ctx, size, _DOUBLE_S))
        tail = b.multiply(bell, b.select(b.compare(size, filled(ctx, x, 8), "LT"), middle, far))
    else:
        inverse = b.divide(filled(ctx, x, 1), size)
        squared = b.multiply(inverse, inverse)
        middle, far = _polynomial(ctx, squared, _ERFC_MIDDLE), _polynomial(ctx, squared, _ERFC_FAR)
        chosen = b.select(b.compare(size, filled(ctx, x, 2), "LT"), middle, far)
        tail = b.multiply(b.multiply(bell, inverse), chosen)
    tail = b.select(b.compare(size, filled(ctx, x, math.inf), "EQ"), filled(ctx, x, 0), tail)
    beyond = b.select(b.compare(x, filled(ctx, x, 0), "LT"), _minus(ctx, 2, tail), tail)
    return _narrowed(ctx, b.select(b.compare(size, filled(ctx, x, 1), "LT"), _minus(ctx, 1, b.erf(x)), beyond))
