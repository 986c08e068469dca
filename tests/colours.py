"""Measures how different two colours look, with normal vision and with colour blindness.

Sources. CIEDE2000: Sharma, Wu and Dalal 2005, "The CIEDE2000 color-difference formula", equations 2 to 22, with their
weights kL = kC = kH = 1. Colour blindness: Machado, Oliveira and Fernandes 2009, "A physiologically-based model for
simulation of color vision deficiency", the matrices of severity 1.0, which act on linear RGB. sRGB to XYZ: IEC
61966-2-1. Contrast: WCAG 2.
"""

from __future__ import annotations

import math

import numpy as np

VISIONS = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour: str) -> np.ndarray:
    """Returns the linear RGB of a colour that is given as `#rrggbb`."""
    rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """Returns the WCAG contrast ratio of two colours, from 1 to 21."""
    dark, light = sorted(float(linear(colour) @ _XYZ[1]) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


def lab(colour: str, vision: str = "normal") -> tuple[float, float, float]:
    """Returns the CIELAB coordinates of a colour as seen with a kind of vision. White stays white."""
    seen = np.clip(VISIONS[vision] @ linear(colour), 0, 1)
    x, y, z = (_root(float(value)) for value in _XYZ @ seen / _XYZ.sum(1))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def _root(t: float) -> float:
    return math.cbrt(t) if t > (6 / 29) ** 3 else t / (3 * (6 / 29) ** 2) + 4 / 29


def difference(one: tuple[float, float, float], other: tuple[float, float, float]) -> float:
    """Returns the CIEDE2000 difference of two colours in CIELAB."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    mean_c = (math.hypot(a1, b1) + math.hypot(a2, b2)) / 2
    g = 0.5 * (1 - math.sqrt(mean_c**7 / (mean_c**7 + 25**7)))  # (4)
    c1, c2 = math.hypot((1 + g) * a1, b1), math.hypot((1 + g) * a2, b2)  # (6)
    h1, h2 = (math.degrees(math.atan2(b, (1 + g) * a)) % 360 for a, b in ((a1, b1), (a2, b2)))  # (7)
    grey = c1 * c2 == 0
    apart = 0.0 if grey else (h2 - h1 + 180) % 360 - 180  # (10)
    chord = 2 * math.sqrt(c1 * c2) * math.sin(math.radians(apart) / 2)  # (11)
    mean_l, mean_c = (l1 + l2) / 2, (c1 + c2) / 2
    if grey:  # (14)
        h = h1 + h2
    elif abs(h1 - h2) <= 180:
        h = (h1 + h2) / 2
    else:
        h = (h1 + h2 + (360 if h1 + h2 < 360 else -360)) / 2
    t = 1 - 0.17 * _cos(h - 30) + 0.24 * _cos(2 * h) + 0.32 * _cos(3 * h + 6) - 0.20 * _cos(4 * h - 63)  # (15)
    turn = 30 * math.exp(-(((h - 275) / 25) ** 2))  # (16)
    s_l = 1 + 0.015 * (mean_l - 50) ** 2 / math.sqrt(20 + (mean_l - 50) ** 2)  # (18)
    s_c, s_h = 1 + 0.045 * mean_c, 1 + 0.015 * mean_c * t  # (19), (20)
    r = -math.sin(math.radians(2 * turn)) * 2 * math.sqrt(mean_c**7 / (mean_c**7 + 25**7))  # (17), (21)
    x, y, z = (l2 - l1) / s_l, (c2 - c1) / s_c, chord / s_h
    return math.sqrt(x * x + y * y + z * z + r * y * z)  # (22)


def _cos(degrees: float) -> float:
    return math.cos(math.radians(degrees))
