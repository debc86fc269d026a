//! The places where a guard of the algorithm can be taken out.
//!
//! `mutant!` marks one. A reader can skip it: nothing of it is left in the program. Only a build
//! with `RUSTFLAGS="--cfg shearline_mutants"` has the switches that it asks. They stand in the
//! module `mutant`, which says of each what guard it takes out.
//!
//! ```text
//! mutant!(Name)                           whether the guard is taken out
//! mutant!(Name | Other)                   whether one of them is
//! mutant!(Name => act);                   what is done then
//! mutant!(Name => value, else value)      what is taken then, and what is taken otherwise
//! ```

#[cfg(not(shearline_mutants))]
macro_rules! is_mutant {
    ($($name:ident)|+) => {
        false
    };
}

#[cfg(shearline_mutants)]
macro_rules! is_mutant {
    ($($name:ident)|+) => {
        $($crate::mutant::Mutant::$name.is_chosen())||+
    };
}

macro_rules! mutant {
    ($($name:ident)|+) => {
        is_mutant!($($name)|+)
    };
    ($name:ident => $act:expr) => {
        if is_mutant!($name) {
            $act;
        }
    };
    ($name:ident => $instead:expr, else $usual:expr) => {
        if is_mutant!($name) { $instead } else { $usual }
    };
}
