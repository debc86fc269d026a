//! Checks that all links have a target: in the repository, in the output of rustdoc, and in the package.
//!
//! A page of `docs` defines its links at its end, as a forge wants them: `[waiting]: waiting.md`. In rustdoc the
//! definitions of `src/manual/links.md` precede each page, so there the same link leads to a module or an item. The
//! definitions of `pictures.md` contain the pictures themselves. The tests compare the two; rustdoc checks that the
//! modules and items exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const LINKS: &str = "src/manual/links.md";
const PICTURES: &str = "src/manual/pictures.md";
/// The beginning of a picture's address. The picture itself follows.
const PICTURE: &str = "data:image/svg+xml,";
const ITEMS: &str = "https://docs.rs/shearline/latest/shearline/";
const FILES: &str = "https://docs.rs/crate/shearline/latest/source/";

/// Text in brackets.
#[derive(Debug)]
enum Bracketed {
    /// `[text](target)`
    Inline(String),
    /// `[text][label]`, or `[label]`
    Reference(String),
    /// `[label]: target`
    Definition(String, String),
}

#[test]
fn every_link_has_a_target() {
    let mut links = 0;
    for page in pages() {
        for target in targets_of(&page) {
            let there = leads_somewhere(&page, &target);
            assert!(there, "{page} has a link to `{target}`, which is not there");
            links += 1;
        }
    }
    assert!(links >= 40, "only {links} were recognized");
}

#[test]
fn every_link_of_the_manual_is_defined_and_every_definition_is_used() {
    for page in manual() {
        let (mut used, mut defined) = (BTreeSet::new(), BTreeSet::new());
        for link in brackets_of(&page) {
            match link {
                Bracketed::Reference(label) => used.insert(label),
                Bracketed::Definition(label, _) => defined.insert(label),
                Bracketed::Inline(_) => false,
            };
        }
        assert_eq!(used, defined, "{page}");
    }
}

/// The text for rustdoc leads to the same places as the pages do, and nowhere else.
#[test]
fn links_lead_to_the_same_place_in_the_documentation() {
    let names = read("tests/public-names.txt").expect("it is there");
    let names: BTreeSet<&str> = names.lines().collect();
    let mut expected = BTreeMap::new();
    for page in manual() {
        for (label, target) in definitions_of(&page) {
            let documented = match target.strip_prefix(ITEMS) {
                Some(item) => item_at(item, &names),
                // The label is the path of an item of the standard library.
                None if target.starts_with("https://") => label.trim_matches('`').to_owned(),
                None => documented_place(&target),
            };
            expected.insert(label, documented);
        }
    }
    let links = definitions_of(LINKS).into_iter();
    let found = links.chain(definitions_of(PICTURES));
    let found = found.map(|(label, target)| match target.strip_prefix(PICTURE) {
        Some(drawn) => {
            let file = read(&format!("docs/{label}"));
            assert!(file == Some(decoded(drawn)), "run python3 docs/pictures.py");
            (label, PICTURE.to_owned())
        }
        None => (label, target),
    });
    let found: BTreeMap<String, String> = found.collect();
    assert_eq!(found, expected);
}

#[test]
fn the_package_has_what_its_texts_link_to() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args("package --list --offline --allow-dirty -p shearline".split(' '));
    let output = cargo.current_dir(root()).output().expect("cargo runs");
    let list = String::from_utf8(output.stdout).expect("text");
    let list: Vec<&str> = list.lines().collect();
    for page in PAGES.split(' ').map(String::from).chain(manual()) {
        assert!(list.contains(&&*page), "{page} is not in the package");
        for target in targets_of(&page) {
            let (file, _) = target.split_once('#').unwrap_or((&target, ""));
            let file = from_root(&page, file);
            let there = list.iter().any(|path| Path::new(path).starts_with(&file));
            assert!(
                there,
                "{page} has a link to {target}, which is not in the package"
            );
        }
    }
}

/// Returns the page or file of the repository to which `target` leads in rustdoc. A picture is contained in the
/// address.
fn documented_place(target: &str) -> String {
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let heading = match heading {
        "" => String::new(),
        heading => format!("#{heading}"),
    };
    if file.ends_with(".svg") {
        return PICTURE.to_owned();
    }
    match file.strip_suffix(".md") {
        Some("README") => format!("crate::manual{heading}"),
        Some(page) if !page.contains('/') => format!("crate::manual::{page}{heading}"),
        _ => format!("{FILES}{}", from_root("docs/README.md", file).display()),
    }
}

/// The text of an address, in which `%3C` stands for a byte.
fn decoded(address: &str) -> String {
    let mut parts = address.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (byte, rest) = part.split_at(2);
        bytes.push(u8::from_str_radix(byte, 16).expect("two digits"));
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).expect("text")
}

/// Returns the path of the item that has this address at docs.rs.
fn item_at(address: &str, names: &BTreeSet<&str>) -> String {
    let (file, part) = address.split_once('#').unwrap_or((address, ""));
    let file = file.replace('/', "::");
    let file = file.strip_suffix(".html").expect("the page of an item");
    let (module, name) = file
        .rsplit_once("::")
        .map_or(("", file), |(module, name)| (module, name));
    let (kind, name) = name.split_once('.').expect("a kind and a name");
    let item = match module {
        "" => name.to_owned(),
        module => format!("{module}::{name}"),
    };
    let (kind, item) = match part.split_once('.') {
        Some((kind, part)) => (kind, format!("{item}::{part}")),
        None => (kind, item),
    };
    let public = format!("{kind} {item}");
    assert!(names.contains(public.as_str()), "there is no {public}");
    format!("crate::{item}")
}

/// The pages of the package outside the manual.
const PAGES: &str = "README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md";

/// The paths of what is in this folder.
fn within(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).expect("it is there");
    let names = entries.map(|entry| entry.expect("listed").file_name().into_string());
    let paths = names.map(|name| format!("{folder}/{}", name.expect("a plain name")));
    paths.collect::<BTreeSet<_>>().into_iter().collect()
}

/// The pages of the manual.
pub(crate) fn manual() -> Vec<String> {
    let mut pages = within("docs");
    pages.retain(|path| path.ends_with(".md"));
    assert!(pages.len() >= 20, "only {} were found", pages.len());
    pages
}

/// All pages in Markdown, and examples, by their paths.
fn pages() -> Vec<String> {
    let mut pages = manual();
    let others = PAGES
        .split(' ')
        .chain(["benches/README.md", "benches/instructions/README.md"]);
    pages.extend(others.map(String::from));
    let programs = within("benches/peers/src/bin").into_iter();
    pages.extend(programs.map(|program| format!("{program}/README.md")));
    let examples = within("examples").into_iter();
    pages.extend(examples.filter(|path| path.ends_with(".rs")));
    pages
}

/// Returns the targets of the links on a page, except for links into the web, which a test cannot check.
fn targets_of(page: &str) -> Vec<String> {
    let targets = brackets_of(page).into_iter().filter_map(|link| match link {
        Bracketed::Inline(target) | Bracketed::Definition(_, target) => Some(target),
        Bracketed::Reference(_) => None,
    });
    targets
        .filter(|target| !target.starts_with("https://"))
        .collect()
}

fn definitions_of(page: &str) -> Vec<(String, String)> {
    let definitions = brackets_of(page).into_iter().filter_map(|link| match link {
        Bracketed::Definition(label, target) => Some((label, target)),
        Bracketed::Inline(_) | Bracketed::Reference(_) => None,
    });
    definitions.collect()
}

/// Returns all brackets outside code. In a Rust file these are the links of its doc comments that are written with a
/// target.
fn brackets_of(page: &str) -> Vec<Bracketed> {
    let text = read(page).unwrap_or_else(|| panic!("{page} is not there"));
    if page.ends_with(".rs") {
        let ends = text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split_once(')'));
        return ends
            .map(|(target, _)| Bracketed::Inline(target.to_owned()))
            .collect();
    }
    let text = without_blocks(&text);
    let mut rest = text.as_str();
    let mut found = Vec::new();
    while let Some(at) = rest.find(['`', '[']) {
        let is_code = rest[at..].starts_with('`');
        let begins_a_line = at == 0 || rest[..at].ends_with('\n');
        rest = &rest[at + 1..];
        if is_code {
            rest = rest.split_once('`').map_or("", |(_, rest)| rest);
            continue;
        }
        let Some((label, after)) = rest.split_once(']') else {
            break;
        };
        rest = after;
        let words: Vec<&str> = label.split_whitespace().collect();
        let label = words.join(" ");
        if let Some(target) = rest.strip_prefix('(') {
            let (target, after) = target.split_once(')').expect("a link ends");
            found.push(Bracketed::Inline(target.to_owned()));
            rest = after;
        } else if let Some(other) = rest.strip_prefix('[') {
            let (label, after) = other.split_once(']').expect("a label ends");
            found.push(Bracketed::Reference(label.to_owned()));
            rest = after;
        } else if begins_a_line && rest.starts_with(": ") {
            let target = rest[2..].lines().next().unwrap_or_default();
            found.push(Bracketed::Definition(label, target.to_owned()));
            rest = &rest[2 + target.len()..];
        } else {
            found.push(Bracketed::Reference(label));
        }
    }
    found
}

/// Returns the text without its blocks of code.
fn without_blocks(text: &str) -> String {
    let mut within = false;
    let lines = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        within ^= fence;
        !within && !fence
    });
    lines.map(|line| format!("{line}\n")).collect()
}

/// Returns `true` if the file of the link exists, and the heading too if the link names one.
fn leads_somewhere(page: &str, link: &str) -> bool {
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let file = match file {
        "" => PathBuf::from(page),
        file => from_root(page, file),
    };
    if heading.is_empty() {
        return root().join(file).exists();
    }
    let text = fs::read_to_string(root().join(file)).unwrap_or_default();
    let text = without_blocks(&text);
    let mut headings = text.lines().filter(|line| line.starts_with('#'));
    headings.any(|line| anchor(line) == heading)
}

/// Returns the path of `link`, found on `page`, relative to the folder of the repository.
fn from_root(page: &str, link: &str) -> PathBuf {
    let mut path = Path::new(page)
        .parent()
        .expect("a file is in one")
        .to_owned();
    for part in link.split('/') {
        match part {
            ".." => assert!(path.pop(), "{page}: {link}"),
            part => path.push(part),
        }
    }
    path
}

/// Returns the anchor that a forge and rustdoc give a heading in Markdown.
fn anchor(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    words
        .chars()
        .filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter))
        .map(|letter| if letter == ' ' { '-' } else { letter })
        .collect()
}

pub(crate) fn read(file: &str) -> Option<String> {
    fs::read_to_string(root().join(file)).ok()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}
