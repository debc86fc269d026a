// The pages of `docs/`, which a forge shows too. A link there names its target as files do: `[waiting]: waiting.md`. Here
// `links.md` stands before each page, and of two definitions the first counts: the same link leads to a module or an item.
#![doc = include_str!("links.md")]
#![doc = include_str!("../../docs/README.md")]

/// Each page is a module.
macro_rules! pages {
    ($($page:ident)*) => {
        $(
            #[doc = include_str!("links.md")]
            #[doc = include_str!(concat!("../../docs/", stringify!($page), ".md"))]
            pub mod $page {}
        )*
    };
}

pages! {
    algorithm choosing coming_from command defaults elections fencing guarantees holders hosted keeping operating outcomes
    permissions safety testing tls tracing troubles waiting
}
