"""Bugs that audits of votes must find."""

from __future__ import annotations

from dpgraph.families.votes.ballots import Ballots
from dpgraph.privacy.relation import Scope
from tests.mutants import broken
from tests.mutants.bugs.shorthand import edit, swap
from tests.mutants.planting import Audit, Bug, Edit, Swap

IN_BALLOTS, STRANGERS = "dpgraph.families.votes.ballots:", "dpgraph.families.votes.strangers:"
PREPARED, LEARNT = "dpgraph.families.votes.prepared:PreparedVotes.", "dpgraph.families.votes.learnt:"
MECHANISMS = "dpgraph.privacy.mechanisms."
CAPPED_VOTES = MECHANISMS + "votes:CappedVotes."
FOR_STRANGERS = STRANGERS + "BoundedStrangerBallots."
CAPPED_STRANGERS = STRANGERS + "CappedStrangerBallots."
SCORES = PREPARED + "scores"
NORM = "vote_norm(num_classes=probabilities.shape[1], mass=mass)"
WEIGHTS = "1 / np.sqrt(np.maximum(self.degrees + 1, self.degree_floor))"
AROUND = "read_around(self.lists, released, trust, ballots, self.lists @ trust + trust)"
STRANGERS_AROUND = "read_around(self.lists, released, trust, ballots, self.lists @ trust)"
TWICE_AROUND = "(np.eye(len(trust)) + 0.5 * self.lists.toarray()) @ "
THIRD_HOP = (IN_BALLOTS + "Ballots.read", AROUND, TWICE_AROUND + AROUND)
SHOWN = Swap("dpgraph.problems.classification:ClassifiedRecords.blind", lambda _: lambda work, graph: graph)
ALL_VOTE = Swap(PREPARED + "labels_that_vote", lambda _: property(lambda self: self.graph.labels))
LONG = Edit(LEARNT + "_whole_sum", "GRID * CLIP / np.maximum(norms[good], CLIP)", "GRID * np.ones(int(good.sum()))")
VOTES, CAPPED, TAUGHT, MEAN = Audit("votes", 500), Audit("votes-capped"), Audit("votes-learnt"), Audit("votes-mean")
MEMBERSHIP, STRANGE = Audit("votes-membership", 2400), Audit("votes-strangers")

BUGS = (
    edit("votes: weight 1 for 1 / sqrt(d + 1)", IN_BALLOTS + "Ballots.weights", WEIGHTS, "np.ones(len(self.votes))",
         VOTES),
    Bug("votes: normalised by the bucket's degree",
        (Edit(IN_BALLOTS + "Ballots.buckets", "self.lists.T @ ballots",
              "self.lists.T @ (ballots / self.weights[:, None])"),
         Edit(IN_BALLOTS + "Ballots.buckets", "result += ballots",
              "result += ballots / self.weights[:, None]\n"
              "result /= np.sqrt(np.asarray(self.lists.sum(axis=0)).ravel() + 1.0)[:, None]")), VOTES),
    edit("votes: own bucket counted twice", IN_BALLOTS + "Ballots.buckets", "result += ballots",
         "result += 2 * ballots", VOTES),
    edit("votes: duplicate ids vote", IN_BALLOTS + "Ballots.from_lists", "if not ascending.all(): ...",
         "if False: ...", VOTES),
    Bug("votes: test labels in votes", (SHOWN, ALL_VOTE), VOTES),
    edit("votes: noise over sqrt 2", SCORES, NORM, NORM + " / 2 ** 0.5", VOTES),
    edit("votes: null votes", PREPARED + "with_record",
         "np.asarray((features != 0).any(axis=1)) | (self.labels_trained_on >= 0)",
         "np.ones(len(features), dtype=bool)", Audit("votes", 2000)),
    edit("votes: a reader of other nodes' lists", *THIRD_HOP, VOTES),
    Bug("votes: utility reads test labels", (SHOWN,), VOTES),
    edit("votes: choice at twice its epsilon", SCORES,
         "bounded_choice(utilities=right, epsilon=mechanism.choice_epsilon, generator=self._choice)",
         "bounded_choice(utilities=right, epsilon=2 * mechanism.choice_epsilon, generator=self._choice)", VOTES),
    edit("votes-capped: degrees charged at sensitivity 1", CAPPED_VOTES + "degrees_noise",
         "math.sqrt(self.most_edges)", "1.0", CAPPED),
    edit("votes-capped: hubs charged at sensitivity 1", CAPPED_VOTES + "hubs_noise", "math.sqrt(self.most_sent)",
         "1.0", CAPPED),
    swap("votes-capped: votes both ways", IN_BALLOTS + "CappedBallots.one_way", broken.both_ways, CAPPED),
    edit("votes-capped: caps from degrees without noise", IN_BALLOTS + "CappedBallots.capped",
         "noisy + 1 + margin * std", "self.degrees + 1 + margin * std", CAPPED),
    edit("votes-capped: caps without their margin", IN_BALLOTS + "CappedBallots.capped",
         "noisy + 1 + margin * std", "noisy + 1", CAPPED),
    edit("votes-capped: weights by degrees, not by caps", IN_BALLOTS + "CappedBallots.weights",
         "np.maximum(self.degrees, self.caps)", "np.maximum(self.degrees, 1)", CAPPED),
    swap("votes-capped: reads the buckets of the own list", IN_BALLOTS + "CappedBallots.read", lambda _: Ballots.read,
         CAPPED),
    Bug("votes-learnt: gradients of the reader are not clipped", (LONG,), TAUGHT),
    Bug("votes-learnt: the sum is clipped instead of each gradient",
        (LONG, Edit(LEARNT + "gradient_sum", "total / GRID", "total / max(GRID, float(np.linalg.norm(total)))")),
        TAUGHT),
    edit("votes-learnt: noise of the reader over sqrt 2", LEARNT + "ReaderSteps.learn",
         "noise.on(sums, self.std, 1 / GRID)", "noise.on(sums, self.std / 2 ** 0.5, 1 / GRID)", TAUGHT),
    edit("votes-learnt: the reader goes along sums without noise", LEARNT + "ReaderSteps.learn",
         "noise.on(sums, self.std, 1 / GRID)", "(0 * noise.on(sums, self.std, 1 / GRID) + sums)", TAUGHT),
    edit("votes-learnt: the reader is learnt on buckets without noise", IN_BALLOTS + "Ballots.read",
         "trust = bucket_trust(released, mass, std, shrinkage)",
         "released = self.buckets(ballots)\ntrust = bucket_trust(released, mass, std, shrinkage)", TAUGHT),
    Bug("votes-learnt: the reader is learnt from all labels",
        (SHOWN, Swap(PREPARED + "labels_trained_on", lambda _: property(lambda self: self.graph.labels)),
         Swap(PREPARED + "examples", lambda _: property(lambda self: range(self.graph.num_nodes)))), TAUGHT),
    edit("votes-learnt: a reader that is learnt on other nodes' lists", *THIRD_HOP, TAUGHT),
    edit("votes-learnt: steps of the reader are charged as one", MECHANISMS + "votes:PoissonVotes.reader_mu",
         "math.sqrt(self.reader_steps) * self._mu(self.reader_ratio)", "self._mu(self.reader_ratio)", TAUGHT),
    edit("votes-mean: rows of the mean keep their lengths", "dpgraph.families.votes.rows:row_sum",
         "unit_rows(features[part])",
         "np.nan_to_num(np.array(features[part], dtype=np.float64))", MEAN),
    edit("votes-mean: noise of the mean over sqrt 2", "dpgraph.engine.training.noise:ReleaseNoise.on", "noise *= std",
         "noise *= std / 2 ** 0.5", MEAN),
    edit("votes-mean: rows centred by the exact mean", PREPARED + "__init__",
         "RowMean(noisy, std, self._how.signed_rows, len(features))",
         "RowMean(row_sum(features), std, self._how.signed_rows, len(features))", MEAN),
    edit("votes-membership: votes read without their noise", SCORES,
         "self._votes.on(ballots.buckets(cast), std, 1 / GRID)",
         "(self._votes.on(ballots.buckets(cast), std, 1 / GRID), ballots.buckets(cast))[1]", MEMBERSHIP),
    edit("votes-membership: noise of votes over 5", SCORES, NORM, NORM + " / 5", MEMBERSHIP),
    edit("votes-membership: weight 1 for 1 / sqrt(d + 1)", IN_BALLOTS + "Ballots.weights", WEIGHTS,
         "np.ones(len(self.votes))", MEMBERSHIP),
    edit("votes-strangers: a taper too steep", FOR_STRANGERS + "weights", "self.taper", "2", STRANGE),
    swap("votes-strangers: two hops stated as joint", MECHANISMS + "stranger_votes:_ForStrangers.scope",
         lambda _: property(lambda self: Scope.JOINT), STRANGE),
    swap("votes-strangers: a reader chosen by what two hops say", PREPARED + "__init__", broken.with_a_choice, STRANGE),
    edit("votes-strangers: lists of mutual edges", FOR_STRANGERS + "over",
         "cls(plain.lists, plain.votes, plain.degree_floor, degree_bound, taper)",
         "cls(plain.lists.multiply(plain.lists.T).tocsr(), plain.votes, plain.degree_floor, degree_bound, taper)",
         STRANGE),
    edit("votes-strangers: a third hop", FOR_STRANGERS + "read", STRANGERS_AROUND, TWICE_AROUND + STRANGERS_AROUND,
         STRANGE),
    edit("votes-strangers: a third hop with caps", CAPPED_STRANGERS + "read",
         "read_around(listed, released, trust, ballots, self.lists @ trust)",
         "(np.eye(len(trust)) + 0.5 * listed.toarray()) @ "
         "read_around(listed, released, trust, ballots, self.lists @ trust)", STRANGE),
    swap("votes-strangers: weights of node-null", FOR_STRANGERS + "weights",
         lambda _: property(lambda self: 1 / (self.degrees + 1.0) ** 0.5), STRANGE),
    swap("votes-strangers: votes for itself", FOR_STRANGERS + "buckets", lambda _: Ballots.buckets, STRANGE),
    swap("votes-strangers: hubs by the receiver's own list", CAPPED_STRANGERS + "received",
         lambda _: property(broken.listed), STRANGE),
    Bug("votes-strangers: test labels in votes", (SHOWN, ALL_VOTE), STRANGE),
)  # fmt: skip
