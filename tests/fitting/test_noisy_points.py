"""The choice of plates for noisy points: dense traces, plates on fine nodes, and the best with hindsight."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

import coordnet as cn
from coordnet.priors.plates import plate as plates
from coordnet.priors.plates.errors import FieldErrors, GeneralizedErrors
from coordnet.priors.plates.field import Field
from coordnet.priors.plates.plate import adjoint, energy_weight, plate
from coordnet.priors.plates.search import _coarse_errors, _smoothing_noise, deciding_parts, with_corner
from coordnet.priors.plates.solve import SingularPlate, solve
from coordnet.priors.plates.tiles import coarse_cutoff, coarsened

RNG = np.random.default_rng(5)
PLACES, QUERY = RNG.random((400, 2)), RNG.random((500, 2))


def smooth(x):
    return np.sin(9 * x[:, 0]) * np.cos(7 * x[:, 1])


NOISY = smooth(PLACES) + 0.1 * RNG.normal(size=400)


def field_of(samples):
    return Field.of(samples.geometry, (samples.values - samples.values.mean(0)).T)


def test_generalized_errors_have_a_dense_twin():
    """With a drift and weights: the trace of the whole map from values to what is left of them."""
    columns = RNG.normal(size=(150, 1))
    samples = cn.points(PLACES[:150], NOISY[:150], RNG.uniform(0.5, 2, 150), drift=columns)
    field = field_of(samples)
    b, weights = field.operator.toarray(), field.weights / field.weights.mean()
    normal = (b.T * field.weights) @ b + energy_weight(3, 0.7) * field.energy(3, 0.2).toarray()
    rough = np.eye(150) - b @ np.linalg.solve(normal, b.T * field.weights)
    drift = field.values[:, 1:]
    weighted = drift.T * field.weights
    rough -= rough @ drift @ np.linalg.solve(weighted @ rough @ drift, weighted @ rough)
    twin = 150 * (weights @ np.square(rough @ field.values[:, 0])) / np.trace(rough) ** 2
    assert GeneralizedErrors([field]).of_plate(3, 0.7, 0.2) == pytest.approx(twin, rel=0.05)


@pytest.mark.parametrize(("order", "cutoff", "corner"), [(2, 0.6, 0.0), (4, 0.35, 0.0), (3.5, 0.4, 0.0), (3, 0.5, 0.2)])
def test_calm_plates_on_coarse_nodes_are_those_on_fine_ones(order, cutoff, corner, monkeypatch):
    field = field_of(cn.points(PLACES, NOISY))
    whole = field.operator @ plate(field, order, cutoff, corner)[0]
    monkeypatch.setitem(plates.FACTORIZED_NODES, 2, 50**2)
    calm, _ = plate(field, order, cutoff, corner)
    coarse = coarsened(field, 0.8 / cutoff)
    assert coarse.lattice[0] < 0.8 * field.lattice[0]
    bent = np.sqrt(np.square(whole - field.values).mean())
    assert np.sqrt(np.square(field.operator @ calm - whole).mean()) < 0.05 * bent


def test_calm_plates_that_are_singular_on_fine_nodes_are_solved_on_coarse_ones(monkeypatch):
    """Where the cut-off is low, orders 5 and 6 hardly differ; the adjoint is that of the solve on coarse nodes."""
    field, numbers = field_of(cn.points(PLACES, NOISY)), (6, 0.35, 0.08)
    with pytest.raises(SingularPlate):
        weighted = field.operator.T * field.weights
        energy = energy_weight(6, 0.35) * field.energy(6, 0.08)
        solve(weighted @ field.operator + energy, weighted @ field.values, 2)
    f = plate(field, *numbers)[0]
    monkeypatch.setattr(plates, "COARSENED", 0.7)  # coarse nodes nearer to each other
    finer = plate(field, *numbers)[0]
    at_points, others = field.operator @ f, field.operator @ finer
    assert np.sqrt(np.square(at_points - others).mean()) < 0.02 * at_points.std()
    g = RNG.normal(size=(len(f), 1))
    assert np.vdot(finer, g) == pytest.approx(np.vdot(field.values, adjoint(field, *numbers, g)), rel=1e-5)
    assert np.isfinite(FieldErrors(field, cn.ThinPlate()).of_plate(*numbers))


@pytest.mark.parametrize(("best", "expected"), [(3, 3), (6, 6), (4, 3)])
def test_corners_are_tried_with_the_best_order_and_another_one(best, expected):
    def error(order, cutoff, corner=0.0):
        off = np.log(cutoff / 0.5) ** 2 + (0.2 if corner == 0 else np.log(corner / 0.18) ** 2)
        return 1 + off + abs(order - best) / 10

    assert with_corner(error, (3, 0.7, 0.0), 6) == (expected, 0.5, 0.18)


def test_the_energy_of_a_parabola_is_the_same_on_coarse_nodes():
    """∫ |D²f|² over an area, of which the borders of the lattices make a few percent."""
    field = field_of(cn.points(PLACES, NOISY))
    coarse = coarsened(field, 2.0)

    def energy(field, step, cutoff):
        x, y = np.meshgrid(*(step * np.arange(n) for n in field.lattice), indexing="ij")
        f = (x**2 + x * y).ravel()
        area = np.prod([(n - 2) * step for n in field.lattice])
        return cutoff**-4 * (f @ field.energy(2) @ f) / area

    fine = energy(field, 1.0, 0.5)
    assert energy(coarse, 2.0, coarse_cutoff(2, 0.5, 2.0, 2)) == pytest.approx(fine, rel=0.05)


@pytest.mark.slow
def test_noisy_points_choose_nearly_the_best_plate_with_hindsight():
    samples = cn.points(PLACES, NOISY)

    def error(prior):
        found = cn.fit(samples, prior=prior)(torch.from_numpy(QUERY))[:, 0].numpy()
        return np.sqrt(np.square(found - smooth(QUERY)).mean())

    tried = [(3, 0.7), (3, 0.5), (4, 0.5), (5, 0.5)]
    assert error("auto") < 1.1 * min(error(cn.ThinPlate(order=p, cutoff=w)) for p, w in tried)


@pytest.mark.slow
def test_points_of_bumps_choose_a_corner_that_helps():
    """A few bumps have waves of all lengths up to their own, and none beyond, as plates without a corner have."""

    def bumps(x):
        centers = np.random.default_rng(1).random((12, 2))
        return np.exp(-cdist(x, centers, "sqeuclidean") / 0.01).sum(1)

    samples = cn.points(PLACES, bumps(PLACES) + 0.05 * RNG.normal(size=400))
    found = cn.fit(samples, prior=cn.ThinPlate())
    prior = cn.ThinPlate(found.report.order, found.report.cutoff, corner=found.report.corner)
    assert prior.corner > 0 and cn.ThinPlate().settled(found.report).text == prior.text

    def error(fit):
        return np.square(fit(torch.from_numpy(QUERY))[:, 0].numpy() - bumps(QUERY)).mean()

    plain = [cn.fit(samples, prior=cn.ThinPlate(p, w)) for p, w in [(2, 1.4), (3, 1.0), (4, 1.0), (5, 1.0), (5, 0.7)]]
    assert error(found) < 0.95 * min(map(error, plain))
    torch.testing.assert_close(cn.fit(samples, prior=prior).render(), found.render())


def test_a_half_order_alone_has_its_cut_off_chosen():
    report = cn.fit(cn.points(PLACES, NOISY), prior=cn.ThinPlate(order=2.5)).report
    assert report.order == 2.5 and 0.2 < report.cutoff < 2


def test_a_few_hundred_points_are_judged_by_all_of_them():
    """The part that decides has fewer; coarser nodes by a factor of 1 are those of the whole lattice."""
    field = field_of(cn.points(PLACES, NOISY))
    assert len(deciding_parts(field)[0].values) < len(field.values)
    error = GeneralizedErrors([field]).of_plate(3, 0.7)
    assert _coarse_errors(field, 1.0)(3, 0.7) == pytest.approx(error, rel=1e-6)
    errors = FieldErrors(deciding_parts(field)[0], cn.ThinPlate())
    numbers, expected = _smoothing_noise(field, errors, [2, 3])
    assert expected == pytest.approx(_coarse_errors(field, max(1, 1 / numbers[1]))(*numbers), rel=0.05)
