//! Stories that are about times on a real clock. They run alone, and a bound is judged against a delay that the
//! same story has measured.

mod holes;
