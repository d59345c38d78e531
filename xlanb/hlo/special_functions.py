"""Special functions as formulas over elementary ones, in single or double precision.

xla/hlo/builder/lib/math.cc names the methods.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xlanb.hlo.builder import HloBuilder
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import PrimitiveType

# Lanczos' approximation of the gamma function with g = 7 and 9 terms (Godfrey, 2001)
_LANCZOS_G = 7
_LANCZOS_FIRST = 0.99999999999980993227684700473478
_LANCZOS = (
    676.520368121885098567009190444019, -1259.13921672240287047156078755283, 771.3234287776530788486528258894,
    -176.61502916214059906584551354, 12.507343278686904814458936853, -0.13857109526572011689554707,
    9.984369578019570859563e-6, 1.50563273514931155834e-7,
)  # fmt: skip

# Chebyshev coefficients for exp(-|x|) I0(x) and exp(-|x|) I1(x) (Cephes, i0.c and i1.c), first for
# |x| <= 8, then for larger |x|
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


# Cephes, ndtrf.c: erfc of |x| >= 1 in single precision, and in double precision (ndtr.c)
_ERFC_MIDDLE = (
    2.326819970068386e-2, -1.387039388740657e-1, 3.687424674597105e-1, -5.824733027278666e-1, 6.210004621745983e-1,
    -4.944515323274145e-1, 3.404879937665872e-1, -2.741127028184656e-1, 5.638259427386472e-1,
)  # fmt: skip
_ERFC_FAR = (
    -1.047766399936249e1, 1.297719955372516e1, -7.495518717768503, 2.921019019210786, -1.015265279202700,
    4.218463358204948e-1, -2.820767439740514e-1, 5.641895067754075e-1,
)  # fmt: skip
_DOUBLE_P = (
    2.46196981473530512524e-10, 5.64189564831068821977e-1, 7.46321056442269912687,
    4.86371970985681366614e1, 1.96520832956077098242e2,
    5.26445194995477358631e2, 9.34528527171957607540e2, 1.02755188689515710272e3, 5.57535335369399327526e2,
)  # fmt: skip
_DOUBLE_Q = (
    1.0, 1.32281951154744992508e1, 8.67072140885989742329e1, 3.54937778887819891062e2, 9.75708501743205489753e2,
    1.82390916687909736289e3, 2.24633760818710981792e3, 1.65666309194161350182e3, 5.57535340817727675546e2,
)  # fmt: skip
_DOUBLE_R = (
    5.64189583547755073984e-1, 1.27536670759978104416, 5.01905042251180477414,
    6.16021097993053585195, 7.40974269950448939160,
    2.97886665372100240670,
)  # fmt: skip
_DOUBLE_S = (
    1.0, 2.26052863220117276590, 9.39603524938001434673, 1.20489539808096656605e1,
    1.70814450747565897222e1, 9.60896809063285878198,
    3.36907645100081516050,
)  # fmt: skip

# Giles, "Approximating the erfinv function" (2010), single precision: polynomials in w = -log((1 -
# x)(1 + x)), highest power first
_CENTRAL = (
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    0.00021858087,
    -0.00125372503,
    -0.00417768164,
    0.246640727,
    1.50140941,
)
_TAIL = (
    -0.000200214257,
    0.000100950558,
    0.00134934322,
    -0.00367342844,
    0.00573950773,
    -0.0076224613,
    0.00943887047,
    1.00167406,
    2.83297682,
)


# Double precision (Giles, 2012): polynomials in w - 3.125 for w < 6.25, sqrt w - 3.25 for w < 16,
# and sqrt w - 5 above
_WIDE: tuple[tuple[float, ...], ...] = (
    (
        -3.6444120640178196996e-21, -1.685059138182016589e-19, 1.2858480715256400167e-18,
        1.115787767802518096e-17, -1.333171662854620906e-16,
        2.0972767875968561637e-17, 6.6376381343583238325e-15, -4.0545662729752068639e-14,
        -8.1519341976054721522e-14, 2.6335093153082322977e-12,
        -1.2975133253453532498e-11, -5.4154120542946279317e-11, 1.051212273321532285e-09,
        -4.1126339803469836976e-09, -2.9070369957882005086e-08,
        4.2347877827932403518e-07, -1.3654692000834678645e-06, -1.3882523362786468719e-05,
        0.0001867342080340571352, -0.00074070253416626697512,
        -0.0060336708714301490533, 0.24015818242558961693, 1.6536545626831027356,
    ),
    (
        2.2137376921775787049e-09, 9.0756561938885390979e-08, -2.7517406297064545428e-07,
        1.8239629214389227755e-08, 1.5027403968909827627e-06,
        -4.013867526981545969e-06, 2.9234449089955446044e-06, 1.2475304481671778723e-05,
        -4.7318229009055733981e-05, 6.8284851459573175448e-05,
        2.4031110387097893999e-05, -0.0003550375203628474796, 0.00095328937973738049703,
        -0.0016882755560235047313, 0.0024914420961078508066,
        -0.0037512085075692412107, 0.005370914553590063617, 1.0052589676941592334, 3.0838856104922207635,
    ),
    (
        -2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09,
        -3.7894654401267369937e-09, 7.6157012080783393804e-09,
        -1.4960026627149240478e-08, 2.9147953450901080826e-08, -6.7711997758452339498e-08,
        2.2900482228026654717e-07, -9.9298272942317002539e-07,
        4.5260625972231537039e-06, -1.9681778105531670567e-05, 7.5995277030017761139e-05,
        -0.00021503011930044477347, -0.00013871931833623122026,
        1.0103004648645343977, 4.8499064014085844221,
    ),
)  # fmt: skip


def filled(b: HloBuilder, like: HloInstruction, value: float) -> HloInstruction:
    """A constant broadcast to the shape of `like`, in its element type."""
    scalar = b.constant(np.asarray(value).astype(like.array_shape.dtype))
    return b.broadcast_in_dim(scalar, like.array_shape.dimensions, ())


def _minus(b: HloBuilder, value: float, x: HloInstruction) -> HloInstruction:
    return b.subtract(filled(b, x, value), x)


def _lanczos(b: HloBuilder, z: HloInstruction) -> tuple[HloInstruction, HloInstruction]:
    """The series A(z) and its derivative, for z >= -1/2."""
    total, slope = filled(b, z, _LANCZOS_FIRST), filled(b, z, 0)
    for index, c in enumerate(_LANCZOS):
        bottom = b.add(z, filled(b, z, index + 1))
        term = b.divide(filled(b, z, c), bottom)
        total, slope = b.add(total, term), b.subtract(slope, b.divide(term, bottom))
    return total, slope


def lgamma(b: HloBuilder, x: HloInstruction) -> HloInstruction:
    """log |gamma(x)|.

    Below 1/2 by reflection: log(pi / |sin(pi x)|) - lgamma(1 - x).
    """
    reflected = b.compare(x, filled(b, x, 0.5), "LT")
    z = b.select(reflected, b.negate(x), b.subtract(x, filled(b, x, 1)))
    series, _ = _lanczos(b, z)
    t = b.add(z, filled(b, z, _LANCZOS_G + 0.5))
    # log t as log(g + 1/2) + log1p(z / (g + 1/2)), and one product, avoid cancellation of large
    # terms
    log_t = b.add(filled(b, z, math.log(_LANCZOS_G + 0.5)), b.log1p(b.divide(z, filled(b, z, _LANCZOS_G + 0.5))))
    log_y = b.add(
        b.add(
            b.multiply(b.subtract(b.add(z, filled(b, z, 0.5)), b.divide(t, log_t)), log_t),
            filled(b, z, math.log(2 * math.pi) / 2),
        ),
        b.log(series),
    )
    size = b.abs(x)
    fraction = b.subtract(size, b.floor(size))
    # sin(pi f) is symmetric about 1/2
    near = b.select(b.compare(fraction, filled(b, x, 0.5), "GT"), _minus(b, 1, fraction), fraction)
    log_sine = b.log(b.sin(b.multiply(near, filled(b, x, math.pi))))
    mirrored = b.subtract(_minus(b, math.log(math.pi), log_sine), log_y)
    mirrored = b.select(b.is_finite(log_sine), mirrored, b.negate(log_sine))
    result = b.select(reflected, mirrored, log_y)
    infinite = b.compare(size, filled(b, x, math.inf), "EQ")
    return b.select(infinite, filled(b, x, math.inf), result)


def digamma(b: HloBuilder, x: HloInstruction) -> HloInstruction:
    """The derivative of lgamma; NaN at 0, -1, -2, ...

    Below 1/2 by reflection: digamma(1 - x) - pi / tan(pi x).
    """
    reflected = b.compare(x, filled(b, x, 0.5), "LT")
    z = b.select(reflected, b.negate(x), b.subtract(x, filled(b, x, 1)))
    series, slope = _lanczos(b, z)
    t = b.add(z, filled(b, z, _LANCZOS_G + 0.5))
    log_t = b.add(filled(b, z, math.log(_LANCZOS_G + 0.5)), b.log1p(b.divide(z, filled(b, z, _LANCZOS_G + 0.5))))
    y = b.subtract(b.add(log_t, b.divide(slope, series)), b.divide(filled(b, z, _LANCZOS_G), t))
    # the offset of x from the nearest integer: the tangent has period 1
    part = b.multiply(b.add(x, b.abs(b.floor(b.add(x, filled(b, x, 0.5))))), filled(b, x, math.pi))
    mirrored = b.subtract(y, b.divide(b.multiply(filled(b, x, math.pi), b.cos(part)), b.sin(part)))
    pole = b.and_(b.compare(x, filled(b, x, 0), "LE"), b.compare(x, b.floor(x), "EQ"))
    return b.select(pole, filled(b, x, math.nan), b.select(reflected, mirrored, y))


def _chebyshev(b: HloBuilder, x: HloInstruction, coefficients: Sequence[float]) -> HloInstruction:
    """Clenshaw's recurrence, highest coefficient first, last one halved."""
    b0, b1, b2 = (filled(b, x, 0) for _ in range(3))
    for c in coefficients:
        b2, b1 = b1, b0
        b0 = b.add(b.subtract(b.multiply(x, b1), b2), filled(b, x, c))
    return b.multiply(b.subtract(b0, b2), filled(b, x, 0.5))


def _bessel(
    b: HloBuilder, x: HloInstruction, near: Sequence[float], far: Sequence[float]
) -> tuple[HloInstruction, HloInstruction]:
    """The approximations of exp(-|x|) I(x), for |x| up to 8 and for larger |x|."""
    size = b.abs(x)
    inside = _chebyshev(b, b.subtract(b.multiply(size, filled(b, x, 0.5)), filled(b, x, 2)), near)
    outside = b.divide(_chebyshev(b, b.subtract(b.divide(filled(b, x, 32), size), filled(b, x, 2)), far), b.sqrt(size))
    return inside, outside


def bessel_i0e(b: HloBuilder, x: HloInstruction) -> HloInstruction:
    """The modified Bessel function I0, times exp(-|x|)."""
    near, far = _bessel(b, x, _I0_NEAR, _I0_FAR)
    return b.select(b.compare(b.abs(x), filled(b, x, 8), "LE"), near, far)


def bessel_i1e(b: HloBuilder, x: HloInstruction) -> HloInstruction:
    """The modified Bessel function I1, times exp(-|x|)."""
    near, far = _bessel(b, x, _I1_NEAR, _I1_FAR)
    size = b.abs(x)
    value = b.select(b.compare(size, filled(b, x, 8), "LE"), b.multiply(size, near), far)
    return b.select(b.compare(x, filled(b, x, 0), "LT"), b.negate(value), value)


def _polynomial(b: HloBuilder, x: HloInstruction, coefficients: Sequence[float]) -> HloInstruction:
    """Horner's rule, highest power first."""
    total = filled(b, x, coefficients[0])
    for c in coefficients[1:]:
        total = b.add(b.multiply(total, x), filled(b, x, c))
    return total


def erfc(b: HloBuilder, x: HloInstruction) -> HloInstruction:
    """1 - erf(x).

    For |x| >= 1 it is exp(-x^2) times an approximation, so that small values keep their precision.
    """
    size = b.abs(x)
    bell = b.exp(b.negate(b.multiply(x, x)))
    if x.array_shape.element_type is PrimitiveType.F64:
        middle = b.divide(_polynomial(b, size, _DOUBLE_P), _polynomial(b, size, _DOUBLE_Q))
        far = b.divide(_polynomial(b, size, _DOUBLE_R), _polynomial(b, size, _DOUBLE_S))
        tail = b.multiply(bell, b.select(b.compare(size, filled(b, x, 8), "LT"), middle, far))
    else:
        inverse = b.divide(filled(b, x, 1), size)
        squared = b.multiply(inverse, inverse)
        middle, far = _polynomial(b, squared, _ERFC_MIDDLE), _polynomial(b, squared, _ERFC_FAR)
        chosen = b.select(b.compare(size, filled(b, x, 2), "LT"), middle, far)
        tail = b.multiply(b.multiply(bell, inverse), chosen)
    tail = b.select(b.compare(size, filled(b, x, math.inf), "EQ"), filled(b, x, 0), tail)
    beyond = b.select(b.compare(x, filled(b, x, 0), "LT"), _minus(b, 2, tail), tail)
    return b.select(b.compare(size, filled(b, x, 1), "LT"), _minus(b, 1, b.erf(x)), beyond)


def _erf_inv_polynomial(b: HloBuilder, t: HloInstruction, coefficients: Sequence[float]) -> HloInstruction:
    """Horner's rule, highest power first."""
    result = filled(b, t, coefficients[0])
    for c in coefficients[1:]:
        result = b.add(filled(b, t, c), b.multiply(result, t))
    return result


def _erf_inv_wide(b: HloBuilder, x: HloInstruction) -> HloInstruction:
    w = b.negate(b.log1p(b.negate(b.multiply(x, x))))
    root = b.unary(HloOpcode.SQRT, w)
    parts = [
        _erf_inv_polynomial(b, b.subtract(v, filled(b, w, c)), coefficients)
        for v, c, coefficients in zip((w, root, root), (3.125, 3.25, 5.0), _WIDE, strict=True)
    ]
    rest = b.select(b.compare(w, filled(b, w, 16.0), "LT"), parts[1], parts[2])
    value = b.multiply(b.select(b.compare(w, filled(b, w, 6.25), "LT"), parts[0], rest), x)
    is_end = b.compare(b.abs(x), filled(b, x, 1.0), "EQ")
    return b.select(is_end, b.multiply(x, filled(b, x, float("inf"))), value)


def erf_inv(b: HloBuilder, x: HloInstruction) -> HloInstruction:
    """The inverse of the error function, in double precision for f64, else in single precision."""
    if x.array_shape.element_type is PrimitiveType.F64:
        return _erf_inv_wide(b, x)
    w = b.unary(HloOpcode.NEGATE, b.unary(HloOpcode.LOG_PLUS_ONE, b.unary(HloOpcode.NEGATE, b.multiply(x, x))))
    central = b.compare(w, filled(b, w, 5.0), "LT")
    near = b.subtract(w, filled(b, w, 2.5))
    far = b.subtract(b.unary(HloOpcode.SQRT, w), filled(b, w, 3.0))
    t = b.select(central, near, far)
    result = b.select(central, filled(b, w, _CENTRAL[0]), filled(b, w, _TAIL[0]))
    for c, d in zip(_CENTRAL[1:], _TAIL[1:], strict=True):
        result = b.add(b.select(central, filled(b, w, c), filled(b, w, d)), b.multiply(result, t))
    return b.multiply(result, x)
