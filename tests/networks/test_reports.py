from dataclasses import replace

import pytest

from coordnet.networks.fit_reports import (
    AdaptiveReport,
    Candidate,
    EvolvingReport,
    FitReport,
    KrigingReport,
    LeastSquaresReport,
    LocalReport,
    PatchWeight,
    PlateReport,
    PowerLaw,
    StackReport,
    TrainingReport,
    WideHolesReport,
    report_from,
)
from coordnet.networks.noise_reports import DenoiseReport
from coordnet.networks.several_reports import BatchReport, TiledReport

SOLVED = {"iterations": 7, "relative_residual": 1e-5}
LAW = PowerLaw(power=2.0, strength=0.01, anisotropy=1.0)
TRIED = [replace(LAW, hold_out_psnr=[30.0, 31.0]), replace(LAW, strength=0.1, hold_out_psnr=[29.0])]
ADAPTIVE = WideHolesReport(method="adaptive", start=LAW, rounds=2, tried=TRIED, gap_psnr=20.0, **SOLVED)
WEIGHTS = {"alpha": 0.5, "against": "the adaptive prior"}
SCORES = {"pilot": 31.0, "local": 32.0}
LOCAL = LocalReport(method="local", patch=[8, 8], **WEIGHTS, hold_out_psnr=SCORES, pilot=ADAPTIVE, **SOLVED)
UNWEIGHED = replace(LOCAL, alpha=0.0, hold_out_psnr=None)
REPORTS = [
    FitReport(),
    FitReport(method="another", prior="Toy()"),
    LeastSquaresReport(method="direct", prior="none", ranks=[4, 5], degrees_of_freedom=20.0),
    LeastSquaresReport(method="robust", ranks=[4], loss="huber", limit=0.1, **SOLVED),
    ADAPTIVE,
    replace(ADAPTIVE, gap_psnr=None),
    AdaptiveReport(method="measured", rounds=8, sigma=0.1, **SOLVED),
    PlateReport(method="plates", order=2, cutoff=None, tried=[], beyond_samples=0.0, device="cpu", hold_out_psnr={}),
    LOCAL,
    UNWEIGHED,
    replace(LOCAL, groups=[PatchWeight(**WEIGHTS, hold_out_psnr=SCORES)]),
    LocalReport(method="areas", alpha=0.7, hold_out_psnr={"splines": 30.0, "local": 31.0}),
    LocalReport(method="noise", prior="Local()", patch=[8, 8], noise=0.1),
    TrainingReport(method="Adam", epochs=2, loss=0.1, learning_rate=0.01),
    BatchReport(method="adaptive", signals=[ADAPTIVE, LOCAL], **SOLVED),
    TiledReport(tiles=[2, 1], overlap=16, fits=[LOCAL, ADAPTIVE]),
    DenoiseReport(prior="local", sigma=0.0, sigma_given=False, expected_psnr=None),
    DenoiseReport(prior="local", sigma=0.1, sigma_given=True, tried={"local": 0.1, "adaptive": 0.2}, expected_psnr=3.0),
    KrigingReport(method="kriging", smoothness=None, scale=3.0, nugget=0.1, device="cpu"),
    EvolvingReport(
        method="frames", bands=[20], stretch=[[1.0, 1.0]], sigma=[0.1], rounds=[1], hidden_errors=[[0.2, 0.1]]
    ),
]


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: f"{type(report).__name__} {report.method}")
def test_a_report_is_read_back_from_its_record(report):
    assert report_from(report.as_dict()) == report


def test_a_record_has_what_concerns_the_fit():
    assert FitReport().as_dict() == {}
    assert REPORTS[2].as_dict() == {"method": "direct", "prior": "none", "ranks": [4, 5], "degrees_of_freedom": 20.0}
    assert REPORTS[7].as_dict()["cutoff"] is None
    assert LOCAL.as_dict()["pilot"]["start"] == {"power": 2.0, "strength": 0.01, "anisotropy": 1.0}
    assert REPORTS[11].as_dict()["iterations"] == 0


def test_names_that_no_report_has_are_left_out():
    assert report_from({"method": "another", "color": 3, "iterations": 2}) == FitReport(method="another", iterations=2)


def test_the_best_psnr_is_that_at_hidden_samples_or_in_hidden_holes():
    assert [FitReport().best_psnr(), ADAPTIVE.best_psnr(), LOCAL.best_psnr(), UNWEIGHED.best_psnr()] == [
        None,
        31,
        32,
        31,
    ]
    assert LOCAL.best_psnr(wide=True) == ADAPTIVE.best_psnr(wide=True) == 20
    assert BatchReport(signals=[LOCAL, ADAPTIVE, FitReport()]).best_psnr() == 31.5


def test_tiles_have_the_psnr_of_their_mean_squared_error():
    low, high = (FitReport(hold_out_psnr={"local": psnr}) for psnr in (20.0, 40.0))
    tiles = TiledReport(tiles=[3], overlap=8, fits=[low, high, FitReport()])
    assert tiles.best_psnr() == pytest.approx(22.967086)  # -10 log10((0.01 + 0.0001) / 2)
    assert tiles.best_psnr(wide=True) is None
    assert replace(tiles, fits=[ADAPTIVE, LOCAL]).best_psnr(wide=True) == pytest.approx(20)
    assert replace(tiles, fits=[ADAPTIVE, FitReport()]).best_psnr(wide=True) is None


def test_what_was_used_is_named_where_it_is_not_what_was_asked_for():
    assert [report.used("local") for report in (UNWEIGHED, LOCAL, ADAPTIVE)] == ["adaptive", "local", "local"]
    assert BatchReport(signals=[UNWEIGHED, UNWEIGHED]).used("local") == "adaptive"
    assert BatchReport(signals=[UNWEIGHED, LOCAL]).used("local") == "local"
    assert TiledReport(tiles=[2], overlap=8, fits=[]).used("local") == "local"


def test_a_stack_names_what_has_a_weight():
    fits = [replace(LOCAL, prior="local"), replace(ADAPTIVE, prior="adaptive")]
    candidates = [
        Candidate(prior=fit.prior, weight=w, hold_out_psnr=30.0) for fit, w in zip(fits, (0.75, 0.25), strict=True)
    ]
    stack = StackReport(method="both", candidates=candidates, fits=fits, hold_out_psnr={"stack": 33.0})
    assert stack.used("auto") == "0.75 local + 0.25 adaptive"
    own = fits[0].best_psnr()  # the whole signal's, to which the gain of 3 dB in the compared windows is added
    assert stack.best_psnr() == own + 3 and own != 30 and stack.best_psnr(wide=True) == 20
    assert replace(stack, fits=[FitReport(prior="local")]).best_psnr() == 33
    assert report_from(stack.as_dict()) == stack
    alone = replace(stack, fits=[replace(UNWEIGHED, prior="local")])
    assert alone.used("auto") == "adaptive" and replace(stack, fits=fits[1:]).used("auto") == "adaptive"
