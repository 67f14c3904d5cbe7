"""Notations of one kind each, both ways: pairs that are the same answer, and near misses that are not."""

from __future__ import annotations

import pytest

from stepgauge.verifiers import verify

SAME = [
    ("120", r"{}^{10}C_{3}"),
    ("120", r"{}^{10}C_3"),
    ("210", "{}_7P_3"),
    (r"\frac{12}{35}", r"\frac{12}35"),
    (r"\frac56", "0.8(3)"),
    ("1/6", r"0.1\dot{6}"),
    (r"2\operatorname{cis}\frac{\pi}{3}", r"1+\sqrt{3}\,i"),
    (r"2\text{cis}(60^\circ)", r"1+\sqrt{3}\,i"),
    (r"\varnothing", r"\text{the empty set}"),
    ("No solution", r"\emptyset"),
    (r"l\parallel m", "l ∥ m"),
    (r"AB\perp CD", "CD ⊥ AB"),
    (r"\frac{x-1}{2}=\frac{y+3}{4}=\frac{z}{5}", r"\frac{z}{5}=\frac{x-1}{2}=\frac{y+3}{4}"),
    ("y'=2y", r"\frac{dy}{dx}=2y"),
    (r"2xy", r"\frac{\partial}{\partial x}\left(x^2y\right)"),
    (r"\vec{a}\times\vec{b}", r"-\vec{b}\times\vec{a}"),
    (r"\langle 3,-4\rangle", r"3\mathbf{i}-4\mathbf{j}"),
    ("(1,-2,3)", r"\hat{i}-2\hat{j}+3\hat{k}"),
    ("(2,3)", "the point (2, 3)"),
    (r"9.8\ \mathrm{m/s^2}", "9.8 m/s²"),
    ("3:45 pm", "3:45 p.m."),
    (r"45.5^\circ", "45°30′"),
    ("2 h 30 min", "2 hours 30 minutes"),
    ("2.5 hours", "2 h 30 min"),
    (r"\text{blue}", "“Blue”"),
    ("7", r"7\text{ apples}"),
    (r"x=\frac{\pi}{2}+k\pi,\ k\in\mathbb{Z}", r"x=\frac{(2n+1)\pi}{2}\quad(n\in\mathbb{Z})"),
    (r"x=n\pi,\ n\in\mathbb{Z}", r"x=\frac{(2k)\pi}{2},\ k\in\mathbb{Z}"),
    (
        r"\frac{\pi}{4}+\frac{k\pi}{2}, k\in\mathbb{Z}",
        r"x=\frac{\pi}{4}+n\pi, x=\frac{3\pi}{4}+n\pi, n\in\mathbb{Z}",
    ),
    (r"\frac{\pi}{2}+k\pi, k \in \mathbb Z", r"-\frac{\pi}{2}+m\pi, m \in \mathbb{Z}"),
    (r"\frac{\pi}{2}+k\pi, k \in \mathbb Z", r"\frac{\pi}{2}+m\pi\text{ where }m\text{ is an integer}"),
    (r"x\equiv 3\pmod 7", r"x=7k+3,\ k\in\mathbb{Z}"),
    (r"x\equiv 3\pmod 7", r"x=7k-4,\ k\in\mathbb{Z}"),
]
OTHER = [
    ("120", r"{}^{10}C_{4}"),
    ("210", "{}_7P_2"),
    (r"\frac{12}{35}", r"\frac{12}36"),
    (r"\frac56", "0.8(4)"),
    (r"2\operatorname{cis}\frac{\pi}{3}", r"1-\sqrt{3}\,i"),
    ("No solution", "{0}"),
    (r"AB\perp CD", "AC ⊥ BD"),
    (r"l\parallel m", r"l\perp m"),
    (r"\frac{x-1}{2}=\frac{y+3}{4}=\frac{z}{5}", r"\frac{z}{5}=\frac{x-1}{4}=\frac{y+3}{2}"),
    ("y'=2y", r"\frac{dy}{dx}=-2y"),
    (r"2xy", r"\frac{\partial}{\partial y}\left(x^2y\right)"),
    (r"m\ddot{x}+kx", r"m\dot{x}+kx"),
    (r"\vec{a}\times\vec{b}", r"\vec{b}\times\vec{a}"),
    (r"\langle 3,-4\rangle", r"3\mathbf{i}+4\mathbf{j}"),
    ("(1,-2,3)", r"\hat{i}-2\hat{j}"),
    ("(2,3)", "the point (3, 2)"),
    (r"9.8\ \mathrm{m/s^2}", "9.8 m/s"),
    ("3:45 pm", "3:45 a.m."),
    (r"45.5^\circ", "45°3′"),
    ("2 h 30 min", "2 hours 3 minutes"),
    (r"\text{blue}", "“Red”"),
    (r"x=n\pi,\ n\in\mathbb{Z}", r"x=2k\pi,\ k\in\mathbb{Z}"),
    (r"\frac{\pi}{2}+k\pi, k \in \mathbb Z", r"\frac{\pi}{3}+m\pi, m \in \mathbb{Z}"),
    (r"\frac{\pi}{2}+2k\pi, k \in \mathbb Z", r"\frac{\pi}{2}+m\pi, m \in \mathbb{Z}"),
    (r"x\equiv 3\pmod 7", r"x=7k+4,\ k\in\mathbb{Z}"),
    (r"x\equiv 3\pmod 7", r"y=7k+3,\ k\in\mathbb{Z}"),
    ("7", r"\boxed{7\text{ or any other number}}"),
]


@pytest.mark.parametrize(("gold", "prediction"), SAME)
def test_the_same_answer_in_another_notation(gold: str, prediction: str) -> None:
    assert verify(gold, prediction).verdict == verify(prediction, gold).verdict == "equal"


@pytest.mark.parametrize(("gold", "prediction"), OTHER)
def test_a_near_miss_in_another_notation_is_never_equal(gold: str, prediction: str) -> None:
    assert not verify(gold, prediction).equal
    assert not verify(prediction, gold).equal
