//! The tables with all figures.

use shearline_peers::table::Table;

use crate::contest::{Contest, Entry, Family, Refusal};

/// A kind of reply in both forms.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// Its name in the table.
    pub(crate) title: &'static str,
    pub(crate) whole: Contest,
    pub(crate) torn: Contest,
}

/// All decoders on all replies.
pub(crate) fn decoding(comparisons: &[Comparison]) -> Table {
    let head = [
        "replies",
        "decoder",
        "in one piece",
        "ns",
        "torn",
        "ns",
        "allocations",
    ];
    let mut table = Table::new(&head);
    for Comparison {
        title, whole, torn, ..
    } in comparisons
    {
        let mut title = title.to_string();
        for (entry, entry_torn) in whole.entries.iter().zip(&torn.entries) {
            let [figure, nanos, allocations] = cells(whole, entry);
            let [figure_torn, nanos_torn, allocations_torn] = cells(torn, entry_torn);
            let mut both = format!("{allocations} / {allocations_torn}");
            if allocations == allocations_torn {
                both = allocations;
            }
            let name = entry.name.clone();
            table.row([title, name, figure, nanos, figure_torn, nanos_torn, both]);
            title = String::new();
        }
    }
    table
}

/// All encoders on all commands.
pub(crate) fn encoding(contests: &[(&'static str, Contest)]) -> Table {
    let mut table = Table::new(&["command", "encoder", "time", "ns", "allocations"]);
    for (title, contest) in contests {
        let mut title = title.to_string();
        for entry in &contest.entries {
            let [figure, nanos, allocations] = cells(contest, entry);
            table.row([title, entry.name.clone(), figure, nanos, allocations]);
            title = String::new();
        }
    }
    table
}

/// The ratio, the nanoseconds and the allocations of an entry.
fn cells(contest: &Contest, entry: &Entry) -> [String; 3] {
    let refused = |why: &str| [why.to_string(), String::new(), String::new()];
    match &entry.result {
        Err(Refusal::Absent(advice)) => refused(advice),
        Err(Refusal::CannotRead) => refused("cannot read it"),
        Ok(measured) => [
            contest
                .figure(entry, *measured)
                .map_or_else(String::new, |figure| figure.to_string()),
            format!("{:.1}", contest.nanos(*measured)),
            allocations(entry, measured.allocations),
        ],
    }
}

fn allocations(entry: &Entry, count: f64) -> String {
    if entry.family == Family::Hiredis {
        // It allocates in C.
        return "not counted".into();
    }
    if count == 0.0 {
        return "0".into();
    }
    if count < 0.005 {
        return "under 0.01".into();
    }
    format!("{count:.2}")
}
