//! An assertion about the form of a value.

/// Asserts that `value` has this form, and otherwise shows it. (The macro of the standard library is newer than the
/// oldest compiler that builds this.)
macro_rules! assert_matches {
    ($value:expr, $form:pat $(if $guard:expr)? $(, $($why:tt)+)?) => {
        match $value {
            $form $(if $guard)? => {}
            ref other => panic!(
                "{} was expected, not {other:?}{}",
                stringify!($form),
                assert_matches!(@because $($($why)+)?)
            ),
        }
    };
    (@because) => { "" };
    (@because $($why:tt)+) => { format_args!(": {}", format_args!($($why)+)) };
}
