//! Tests that an oracle objects if one guard is removed, or if something else is broken.
//!
//! There are three kinds of mutants. The guards of the library (`src/guards.rs`) are removed one after the other, for
//! the whole process, in a build with `--cfg shearline_mutants`. Other breakages of the library are patches
//! (`tests/breakages`): `tests/breakages.sh` applies all of them to a copy of the tree, and each does nothing until it
//! is chosen by its name, as a guard is. Mistakes that a driver could make are switches of the world.
//! [`heard`](crate::heard) plays, for each mutant, the recorded history in which an oracle objects.

use std::sync::{Mutex, MutexGuard};

use crate::bare::BARE;
use crate::case::{ANY, Kind};
use crate::entropy::Entropy;
use crate::kinds::{ASLEEP, GIVEN_UP, NARROW, kind};
use crate::oracle::ORACLES;
use crate::plan::{Kinds, Plan, Switches};
use crate::watchdog::locked;

/// Worlds with the mistakes that a driver could make.
pub(crate) const DRIVERS: [Kind; 6] = [
    kind("monotonic-clock", |entropy| {
        wrong(ASLEEP, entropy, |switches| switches.monotonic = true)
    }),
    kind("stale-clock", |entropy| {
        wrong(ANY, entropy, |switches| switches.stale_clock = true)
    }),
    kind("polite-close", |entropy| {
        wrong(GIVEN_UP, entropy, |switches| switches.polite = true)
    }),
    kind("probe-becomes-connection", |entropy| {
        wrong(ANY, entropy, |switches| switches.keeps_probes = true)
    }),
    kind("release-overtakes", |entropy| {
        wrong(ANY, entropy, |switches| switches.overtakes = true)
    }),
    kind("watch-elsewhere", |entropy| Plan {
        kinds: Kinds::Redis, // Only this releases locks there.
        ..wrong(BARE, entropy, |switches| switches.watches_elsewhere = true)
    }),
];

fn wrong(kind: Kind, entropy: &mut Entropy, switch: impl FnOnce(&mut Switches)) -> Plan {
    let mut plan = (kind.draw)(entropy);
    switch(&mut plan.switches);
    plan
}

/// The only oracle that counts, if not all do.
static HEARD: Mutex<Option<&'static str>> = Mutex::new(None);

/// Returns the only oracle that counts, in every world.
pub(crate) fn heard() -> Option<&'static str> {
    *locked(&HEARD)
}

/// Locked while a choice is active, because only one choice is active at a time, even if tests run side by side.
static TURN: Mutex<()> = Mutex::new(());

/// While this lives, a mutant of the library is chosen, or explicitly none.
#[derive(Debug)]
pub(crate) struct Chosen {
    _turn: MutexGuard<'static, ()>,
}

impl Chosen {
    /// Waits until nothing else is chosen, and chooses the mutant of this name.
    pub(crate) fn new(name: Option<&str>) -> Self {
        Self::in_world(name, ANY)
    }

    /// Chooses the mutant as [`Self::new`] does, with narrow bounds if this kind of world has them.
    pub(crate) fn in_world(name: Option<&str>, kind: Kind) -> Self {
        let turn = locked(&TURN);
        library::choose(name, kind.name == NARROW.name);
        Self { _turn: turn }
    }

    /// Also lets only this oracle count.
    pub(crate) fn listening(self, oracle: &str) -> Self {
        let known = ORACLES.iter().find(|(known, ..)| *known == oracle);
        let (known, ..) = known.unwrap_or_else(|| panic!("there is no oracle {oracle}"));
        *locked(&HEARD) = Some(known);
        self
    }

    /// Makes the choice that the variables `MUTANT` and `ONLY` name.
    pub(crate) fn by_environment() -> Self {
        let name = std::env::var("MUTANT").ok();
        let chosen = Self::in_world(name.as_deref(), crate::replay::kind());
        match std::env::var("ONLY") {
            Ok(oracle) => chosen.listening(&oracle),
            Err(_) => chosen,
        }
    }
}

impl Drop for Chosen {
    fn drop(&mut self) {
        library::choose(None, false);
        *locked(&HEARD) = None;
    }
}

pub(crate) use library::{chosen, is_narrow};

mod library {
    use std::sync::Mutex;

    use crate::watchdog::locked;

    /// The name of the mutant that is chosen, and whether bounds are narrow.
    static CHOSEN: Mutex<(Option<String>, bool)> = Mutex::new((None, false));

    pub(super) fn choose(name: Option<&str>, narrow: bool) {
        let narrow_bounds = narrow.then_some("NarrowBounds");
        let names: Vec<_> = name.into_iter().chain(narrow_bounds).collect();
        #[cfg(not(shearline_mutants))]
        assert!(names.is_empty(), "only a build with mutants has {names:?}");
        #[cfg(shearline_mutants)]
        take_out(&names);
        *locked(&CHOSEN) = (name.map(str::to_owned), narrow);
    }

    #[cfg(shearline_mutants)]
    fn take_out(names: &[&str]) {
        for name in names {
            let is_known = super::tests::all().iter().any(|(known, _)| known == name);
            assert!(is_known, "no mutant of the name {name}");
        }
        shearline::guards::take_out(names);
    }

    /// Returns `true` if the bounds of engines are narrow.
    pub(crate) fn is_narrow() -> bool {
        locked(&CHOSEN).1
    }

    /// Returns the name of the mutant that is chosen.
    pub(crate) fn chosen() -> Option<String> {
        locked(&CHOSEN).0.clone()
    }
}

#[cfg(shearline_mutants)]
pub(crate) mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use shearline::guards::{self, Guard};

    use super::{Chosen, DRIVERS, ORACLES};
    use crate::bare::BARE;
    use crate::case::{ANY, Kind};
    use crate::fencing::{FENCED, FENCED_PERMITS};
    use crate::heard::{Row, assert_heard};
    use crate::history::History;
    use crate::kinds::{
        CRAMPED, EXTENDED, FLUSHED, FORGOTTEN, INHERITED, KEPT_LATER, NARROW, RAISED, STEPPED,
        STOPPED,
    };
    use crate::reading::{CLAIMANTS, SHARED};
    use crate::replay::effort;
    use crate::sets::SETS;
    use crate::sweep::{keep_their_promises, say};

    /// Guards that these worlds do not need, or that no oracle checks, and the stories of the library that notice their
    /// removal. `tests/breakages.sh` reads this table.
    const STORIES: [(&str, &str); 6] = [
        // A lock that becomes a shared one.
        ("DowngradeStaysExclusive", "engine::tests::shared"),
        // These worlds ask for no slots.
        ("AnySlotCounts", "engine::tests::permits"),
        ("MovedSlotCounts", "engine::tests::permits"),
        // A copy that is lost and sent again, within one lock.
        ("DeniedCopyForgotten", "engine::tests::copies"),
        ("ConfirmedCopyReleased", "engine::tests::handover"),
        // A copy that is lost and sent again while a clock is known to be stepped.
        ("NewCopySure", "engine::tests::clocks"),
    ];

    /// Guards that rarely matter in ordinary worlds, and the kind of world that notices the removal of each.
    const RARELY: [(&str, Kind); 14] = [
        ("ClaimsUnbounded", NARROW),
        ("DebtWithoutRoomForgotten", NARROW),
        ("EveryVoterCounts", INHERITED),
        ("StaleNow", STOPPED),
        ("ExtensionRepairedAfterEnd", EXTENDED),
        ("OlderExtensionGoesOn", EXTENDED),
        ("QuarantinedHandedOver", FORGOTTEN),
        ("StepIgnored", STEPPED),
        ("MarkerIgnored", FLUSHED),
        ("ShorterMarkerVotes", RAISED),
        ("QueuedSetSentLate", CRAMPED),
        ("AnySlotCounts", CLAIMANTS),
        ("MovedSlotCounts", CLAIMANTS),
        ("OldNumberCounts", FENCED_PERMITS),
    ];

    /// Breakages that both stories and a kind of world notice.
    const BESIDE_STORIES: [(&str, Kind); 11] = [
        ("TransactionsOverlap", BARE),
        ("AbortedIsDone", BARE),
        ("MissingIsSettled", BARE),
        ("TransactionShortens", BARE),
        ("PassingRefusalIsFinal", BARE),
        ("SetTakenHalf", SETS),
        ("SetReleasedInPart", SETS),
        ("SetLeavesARecord", SETS),
        ("KeptAgainAnew", KEPT_LATER),
        ("TokenIsNotWrittenBack", FENCED),
        ("ReaderLeavesARecord", SHARED),
    ];

    /// The folder of the patches. In a tree to which they are applied it also contains a file `applied`.
    const BREAKAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/breakages");

    /// Returns the names of all mutants that can be chosen, and the kind of world that notices each, if
    /// one does.
    pub(super) fn all() -> Vec<(String, Option<Kind>)> {
        let guards = Guard::ALL
            .iter()
            .map(|name| (name.to_string(), kind_for(name)));
        guards.chain(breakages()).collect()
    }

    /// Returns the kind of world that notices the removal of a guard, or `None` if stories notice it.
    fn kind_for(guard: &str) -> Option<Kind> {
        if STORIES.iter().any(|(name, _)| *name == guard) {
            return None;
        }
        let rare = RARELY.iter().find(|(name, _)| *name == guard);
        Some(rare.map_or(ANY, |(_, kind)| *kind))
    }

    /// Reads the lines `Name [what notices it]: what is broken.` at the beginning of each patch. A breakage that the
    /// `search` notices has a test there.
    fn breakages() -> Vec<(String, Option<Kind>)> {
        let mut all = Vec::new();
        let applied = Path::new(BREAKAGES).join("applied").exists();
        assert!(applied, "this is run by `bash tests/breakages.sh`");
        for file in std::fs::read_dir(BREAKAGES).expect("they are committed") {
            let path = file.expect("it can be read").path();
            if path.extension().is_none_or(|it| it != "patch") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("it is text");
            let head = text.lines().take_while(|line| !line.starts_with("--- "));
            for line in head.filter(|line| !line.is_empty()) {
                let parts = line.split_once(" [");
                let parts = parts.and_then(|(name, rest)| Some((name, rest.split_once("]: ")?.0)));
                let (name, notices) = parts.unwrap_or_else(|| panic!("{path:?}: {line:?}"));
                let kind = Kind::of_name(notices);
                let elsewhere = ["-", "search"].contains(&notices) || notices.contains("::");
                let known = kind.is_some() || elsewhere;
                assert!(known, "{path:?}: {notices} is no world and no story");
                all.push((name.to_owned(), kind));
            }
        }
        all.sort_by(|one, other| one.0.cmp(&other.0));
        all
    }

    #[test]
    fn mutants_have_names_of_their_own() {
        let all = all();
        let numbers = all.iter().map(|(name, _)| guards::number(name));
        assert_eq!(numbers.collect::<BTreeSet<_>>().len(), all.len());
        let guards: BTreeSet<_> = Guard::ALL.iter().map(ToString::to_string).collect();
        for (name, _) in RARELY {
            assert!(guards.contains(name), "there is no guard {name}");
        }
        let (guards, others) = (Guard::ALL.len(), all.len() - Guard::ALL.len());
        say(&format!("{guards} guards, {others} other breakages"));
    }

    /// Returns `true` if `ROWS` names this row, or is not set: then all rows are wanted.
    pub(crate) fn is_asked_for(name: &str) -> bool {
        std::env::var("ROWS").map_or(true, |rows| rows.split(',').any(|row| row == name))
    }

    /// With [`mutants_are_noticed`], the whole of `heard.tsv`.
    #[test]
    fn every_oracle_is_heard_alone() {
        let rows = ORACLES.map(|(oracle, mutant, world)| Row {
            mutant: Some(mutant.to_owned()),
            kind: Kind::of_name(world).expect("the name of a world"),
            alone: Some(oracle),
        });
        assert_heard(Vec::from(rows));
    }

    #[test]
    fn without_mutants_narrow_bounds_are_kept() {
        let seen = keep_their_promises(NARROW, effort(30, 300)).counts.sights;
        for name in ["Saturated", "Full"] {
            let times = seen.of(name);
            assert!(effort(1, 10) <= times, "{name}: {times}");
        }
    }

    fn assert_rows_exist(all: &[(String, Option<Kind>)]) {
        let rows = std::env::var("ROWS").unwrap_or_default();
        for row in rows.split(',').filter(|row| !row.is_empty()) {
            let is_driver = DRIVERS.iter().any(|kind| kind.name == row);
            let is_mutant = all.iter().any(|(name, _)| name == row);
            assert!(is_driver || is_mutant, "there is no {row}");
        }
    }

    #[test]
    fn mutants_are_noticed() {
        let all = all();
        assert_rows_exist(&all);
        let heard_here = all
            .into_iter()
            .filter_map(|(name, kind)| Some((Some(name), kind?)));
        let beside = BESIDE_STORIES.map(|(name, kind)| (Some(name.to_owned()), kind));
        let drivers = DRIVERS.map(|kind| (None, kind));
        let rows = heard_here.chain(beside).chain(drivers);
        let rows = rows.map(|(mutant, kind)| Row {
            mutant,
            kind,
            alone: None,
        });
        assert_heard(rows.filter(|row| is_asked_for(row.name())).collect());
    }

    #[test]
    fn mutants_of_histories_are_noticed() {
        for (name, history) in History::kept() {
            if let Some(mutant) = &history.mutant {
                let _chosen = Chosen::new(Some(mutant));
                let story = &history.story;
                assert_eq!(history.objection(), history.oracle, "{name}: {story:?}");
            }
        }
    }
}
