//! An assertion that a value matches a pattern.

/// Asserts that `value` matches the pattern. If not, the panic shows `value`. (The macro of the standard library is
/// newer than the oldest supported compiler.)
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
