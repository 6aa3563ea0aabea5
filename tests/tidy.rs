//! Keeps the house as `docs/ARCHITECTURE.md` describes it: who may import whom, which crate lives
//! where, every module introduced, every registry complete, no file that grew past reading.
#![expect(clippy::expect_used, reason = "helpers of tests fail like tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Which modules of this crate a module may name. The longest matching folder counts.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("model", &["base"]),
    ("mapping", &["base", "model"]),
    ("config", &["base", "model", "mapping"]),
    ("store", &["base", "model", "mapping", "config"]),
    ("broker", &["base", "model", "config"]),
    (
        "ports.rs",
        &["alert", "base", "model", "config", "store", "broker"],
    ),
    ("alert", &["base", "model", "config"]),
    (
        "pipeline",
        &[
            "alert", "base", "model", "mapping", "config", "store", "broker", "ports",
        ],
    ),
    (
        "observe",
        &[
            "base", "model", "mapping", "config", "store", "broker", "ports",
        ],
    ),
    (
        "diagnose",
        &[
            "base", "model", "mapping", "config", "store", "broker", "ports", "observe",
        ],
    ),
    (
        "exporter",
        &["base", "model", "config", "ports", "observe", "diagnose"],
    ),
    (
        "reconcile",
        &["base", "model", "config", "store", "broker", "ports"],
    ),
    (
        "operate",
        &[
            "base", "model", "mapping", "config", "store", "broker", "ports", "pipeline",
        ],
    ),
    (
        "sandbox",
        &[
            "base", "model", "mapping", "config", "store", "broker", "ports", "pipeline", "operate",
        ],
    ),
    (
        "drill",
        &[
            "alert", "base", "model", "config", "store", "broker", "ports", "pipeline", "observe",
            "operate", "sandbox",
        ],
    ),
    (
        "assembly.rs",
        &[
            "alert",
            "base",
            "model",
            "mapping",
            "config",
            "store",
            "broker",
            "ports",
            "pipeline",
            "observe",
            "operate",
            "reconcile",
            "sandbox",
            "drill",
        ],
    ),
    (
        "cli",
        &[
            "base",
            "model",
            "config",
            "pipeline",
            "observe",
            "diagnose",
            "operate",
            "exporter",
            "reconcile",
            "sandbox",
            "drill",
            "assembly",
            "tui",
        ],
    ),
    (
        "tui",
        &[
            "base",
            "model",
            "config",
            "pipeline",
            "observe",
            "diagnose",
            "operate",
            "reconcile",
            "drill",
            "assembly",
        ],
    ),
];

/// Adapters, which only their own folder and the composition root may name.
const ADAPTERS: &[(&str, &str)] = &[
    ("store::sql", "store"),
    ("broker::rabbitmq", "broker"),
    ("broker::embedded", "broker"),
    ("alert::command", "alert"),
    ("alert::webhook", "alert"),
];

/// Crates that live in one place.
const CRATE_HOMES: &[(&str, &[&str])] = &[
    ("sqlx", &["store/sql"]),
    ("lapin", &["broker/rabbitmq"]),
    ("reqwest", &["broker/rabbitmq", "alert/webhook.rs"]),
    ("ratatui", &["tui"]),
    ("crossterm", &["tui"]),
    ("clap", &["cli", "main.rs"]),
    ("hyper", &["exporter/serve.rs"]),
    ("hyper_util", &["exporter/serve.rs"]),
    ("http_body_util", &["exporter/serve.rs"]),
    ("prometheus_client", &["exporter/page.rs"]),
    ("color_eyre", &["main.rs", "cli"]),
];

/// A folder whose files are entries of a `const` slice in its `mod.rs`, and the files that are not.
struct Registry {
    folder: &'static str,
    slice: &'static str,
    helpers: &'static [&'static str],
}

const REGISTRIES: &[Registry] = &[
    Registry {
        folder: "tui/pane",
        slice: "PANES",
        helpers: &["browser", "listing"],
    },
    Registry {
        folder: "operate",
        slice: "OPERATIONS",
        helpers: &[
            "plan",
            "guard",
            "headers",
            "journal",
            "runner",
            "prove",
            "preflight",
            "resolve",
            "audit",
            "annotate",
            "sequence",
            "target",
            "apply",
            "access",
            "destination",
            "unlock",
            "probe",
            "line",
            "test_support",
            "command_line",
            "look",
            "requeue",
            "route",
            "wording",
        ],
    },
    Registry {
        folder: "reconcile/check",
        slice: "CHECKS",
        helpers: &[],
    },
    Registry {
        folder: "pipeline",
        slice: "WORKERS",
        helpers: &[
            "absent",
            "alerter",
            "supervisor",
            "subscription",
            "headers",
            "message",
            "death",
            "copy",
            "test_support",
        ],
    },
    Registry {
        folder: "diagnose/rule",
        slice: "VERDICTS",
        helpers: &[],
    },
    Registry {
        folder: "drill",
        slice: "DRILLS",
        helpers: &[
            "control", "faults", "oracle", "order", "proxy", "record", "run", "stage", "trouble",
            "verdict",
        ],
    },
];

#[test]
fn drills_write_only_where_a_context_is_a_sandbox() {
    let run = fs::read_to_string(root().join("src/drill/run.rs")).expect("the runner of drills");
    let allowed = run.find("allowed(bench)?").expect("the runner asks first");
    let first_write = run.find("prepare_bare(").expect("the runner's first write");
    assert!(allowed < first_write, "a drill is refused before it writes");
    // Statements that write stand where a stage is needed, and only the runner opens one.
    let opened: Vec<_> = sources()
        .into_iter()
        .filter(|source| source.code.contains("Stage::open("))
        .map(|source| source.path)
        .collect();
    assert_eq!(opened, ["drill/run.rs"]);
}

/// Lines without tests a file may have, and the files that still have more. May only shrink.
const LINES_MAX: usize = 500;
const LONGER: &[&str] = &[];

struct Source {
    /// Relative to `src`, with forward slashes.
    path: String,
    /// Without comments, strings untouched, and without `#[cfg(test)]` parts.
    code: String,
    whole: String,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        if path.is_dir() && !is_hidden && entry.file_name() != "target" {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
}

fn sources() -> Vec<Source> {
    let src = root().join("src");
    let mut paths = Vec::new();
    files(&src, "rs", &mut paths);
    paths.sort();
    assert!(paths.len() > 20, "src was not found");
    let source = |path: &PathBuf| {
        let whole = fs::read_to_string(path).expect("readable source");
        let relative = path.strip_prefix(&src).expect("under src");
        Source {
            path: relative.to_string_lossy().replace('\\', "/"),
            code: production_code(&whole),
            whole,
        }
    };
    paths.iter().map(source).collect()
}

/// Lines that are not comments, up to the first inline test module (which ends a file here).
fn production_code(whole: &str) -> String {
    let mut out = String::new();
    let mut lines = whole.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" && lines.peek().is_some_and(|next| is_inline_module(next))
        {
            break;
        }
        if !line.trim_start().starts_with("//") {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

fn is_inline_module(line: &str) -> bool {
    line.starts_with("mod ") && line.ends_with('{')
}

/// Files that only tests compile may use whatever proves the point.
fn is_test_file(path: &str) -> bool {
    path.ends_with("tests.rs")
        || path.contains("/tests/")
        || path.contains("test_support")
        || path.ends_with("contract.rs")
}

/// True when `code` names `path` as a path, not as part of a longer word.
fn names(code: &str, path: &str) -> bool {
    code.match_indices(path).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + path.len()..].chars().next();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
            && !after.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

/// Modules of this crate that are named as `crate::x` or in `use crate::{…}`.
fn known_modules(code: &str) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 0;
            let mut word = String::new();
            let mut is_start = true;
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => is_start = true,
                    c if depth == 0 && is_start && (c.is_alphanumeric() || c == '_') => {
                        word.push(c);
                    }
                    _ if depth == 0 && !word.is_empty() => {
                        known.insert(std::mem::take(&mut word));
                        is_start = false;
                    }
                    _ => {}
                }
            }
            if !word.is_empty() {
                known.insert(word);
            }
        } else {
            known.insert(
                rest.chars()
                    .take_while(|c| c.is_alphanumeric() || *c == '_')
                    .collect(),
            );
        }
    }
    known
}

fn fail(title: &str, findings: &[String]) {
    assert!(
        findings.is_empty(),
        "{title}:\n  {}\n",
        findings.join("\n  ")
    );
}

#[test]
fn nobody_imports_what_it_must_not_know() {
    let mut findings = Vec::new();
    for source in sources().iter().filter(|s| !is_test_file(&s.path)) {
        let Some((own, allowed)) = MAY_KNOW.iter().find(|(folder, _)| {
            source.path == *folder || source.path.starts_with(&format!("{folder}/"))
        }) else {
            continue;
        };
        for module in known_modules(&source.code) {
            let is_own = own.trim_end_matches(".rs") == module;
            if !is_own && !allowed.contains(&module.as_str()) && !module.is_empty() {
                findings.push(format!("src/{}: must not know `{module}`", source.path));
            }
        }
        for (adapter, home) in ADAPTERS {
            let folder = adapter.replace("::", "/");
            let is_home =
                source.path.starts_with(&folder) || source.path == format!("{home}/mod.rs");
            if !is_home
                && source.path != "assembly.rs"
                && source.code.contains(&format!("{adapter}::"))
            {
                findings.push(format!(
                    "src/{}: must not know the adapter `{adapter}`",
                    source.path
                ));
            }
        }
    }
    fail("forbidden imports (MAY_KNOW in tests/tidy.rs)", &findings);
}

#[test]
fn every_crate_stays_in_its_home() {
    let mut findings = Vec::new();
    for source in sources().iter().filter(|s| !is_test_file(&s.path)) {
        for (name, homes) in CRATE_HOMES {
            let is_home = homes.iter().any(|home| source.path.starts_with(home));
            if !is_home && names(&source.code, &format!("{name}::")) {
                findings.push(format!(
                    "src/{}: `{name}` belongs in {homes:?}",
                    source.path
                ));
            }
        }
        if !source.path.starts_with("base/") && source.code.contains("tokio::spawn(") {
            findings.push(format!(
                "src/{}: spawn through base::tasks::Tasks",
                source.path
            ));
        }
    }
    fail("crates outside their home", &findings);
}

#[test]
fn every_module_says_what_it_is_for() {
    let findings: Vec<String> = sources()
        .iter()
        .filter(|source| !source.whole.starts_with("//!"))
        .map(|source| format!("src/{}: starts without `//!`", source.path))
        .collect();
    fail("modules without an introduction", &findings);
}

#[test]
fn every_registry_lists_its_files() {
    let mut findings = Vec::new();
    for registry in REGISTRIES {
        let folder = root().join("src").join(registry.folder);
        let text = fs::read_to_string(folder.join("mod.rs")).expect("registry module");
        let Some(at) = text.find(&format!("const {}", registry.slice)) else {
            findings.push(format!(
                "src/{}/mod.rs: no `const {}`",
                registry.folder, registry.slice
            ));
            continue;
        };
        let end = text[at..].find("];").map_or(text.len(), |end| at + end);
        let slice = &text[at..end];
        for entry in fs::read_dir(&folder).expect("registry folder").flatten() {
            let file = entry.file_name().to_string_lossy().into_owned();
            let name = file.trim_end_matches(".rs");
            let is_entry = name != "mod" && !name.ends_with("tests") && !name.contains("snapshots");
            if is_entry && !registry.helpers.contains(&name) && !names_part(slice, name) {
                findings.push(format!(
                    "src/{}/{file}: not listed in {}",
                    registry.folder, registry.slice
                ));
            }
        }
    }
    fail("files missing from their registry", &findings);
}

fn names_part(slice: &str, name: &str) -> bool {
    slice.match_indices(name).any(|(at, _)| {
        let before = slice[..at].chars().next_back();
        let after = slice[at + name.len()..].chars().next();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
            && !after.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

#[test]
fn no_file_grew_past_reading() {
    let mut findings = Vec::new();
    for source in sources().iter().filter(|s| !is_test_file(&s.path)) {
        let lines = source.code.lines().count();
        let is_listed = LONGER.contains(&format!("src/{}", source.path).as_str());
        if lines > LINES_MAX && !is_listed {
            findings.push(format!(
                "src/{}: {lines} lines (at most {LINES_MAX})",
                source.path
            ));
        }
    }
    fail("files too long for one subject", &findings);
}

#[test]
fn no_sleep_no_skip_and_no_loose_end() {
    let mut findings = Vec::new();
    let mut paths = Vec::new();
    files(&root().join("src"), "rs", &mut paths);
    files(&root().join("tests"), "rs", &mut paths);
    for path in paths.iter().filter(|path| !path.ends_with("tidy.rs")) {
        let text = fs::read_to_string(path).expect("readable source");
        let shown = path
            .strip_prefix(root())
            .expect("under the root")
            .display()
            .to_string();
        let is_test = is_test_file(&shown) || shown.starts_with("tests");
        for (index, line) in text.lines().enumerate() {
            let banned = [
                ("#[ignore", true),
                ("FIXME", true),
                ("thread::sleep", true),
                ("time::sleep(", is_test && !shown.contains("bench")),
            ];
            for (what, applies) in banned {
                if applies && line.contains(what) {
                    findings.push(format!("{shown}:{}: {what}", index + 1));
                }
            }
            if line.contains("TODO") && !line.contains("TODO(#") {
                findings.push(format!(
                    "{shown}:{}: TODO without an issue number",
                    index + 1
                ));
            }
        }
    }
    fail("sleeps, skips and loose ends", &findings);
}

/// A crash point is the whole process's, and `cargo test` runs all tests of a binary in one.
#[test]
fn what_arms_a_crash_point_runs_alone() {
    let mut paths = Vec::new();
    files(&root().join("src"), "rs", &mut paths);
    let mut findings = Vec::new();
    let mut alone = 0;
    for path in paths {
        let text = fs::read_to_string(&path).expect("readable source");
        let path = path.strip_prefix(root()).expect("under the root");
        let shown = path.display().to_string();
        // A drill is a process of its own, and the points' own tests have names of their own.
        let is_free = shown.starts_with("src/drill/") || shown == "src/base/crash.rs";
        if is_free || !text.contains(".arm(") {
            continue;
        }
        if text.matches(".arm(").count() == text.matches("is_alone(").count() {
            alone += 1;
        } else {
            findings.push(format!("{shown}: a test that arms begins with `is_alone`"));
        }
    }
    fail("crash points armed beside other tests", &findings);
    assert!(alone > 0, "the rule has lost what it looks at");
}

#[test]
fn every_snapshot_has_its_test() {
    let mut snapshots = Vec::new();
    files(&root().join("src"), "snap", &mut snapshots);
    files(&root().join("tests"), "snap", &mut snapshots);
    let mut findings = Vec::new();
    for path in snapshots {
        let text = fs::read_to_string(&path).expect("readable snapshot");
        let source = text.lines().find_map(|line| line.strip_prefix("source: "));
        if !source.is_some_and(|source| root().join(source.trim_matches('"')).exists()) {
            findings.push(path.display().to_string());
        }
    }
    fail("snapshots whose test is gone", &findings);
}

#[test]
fn the_docs_point_at_files_that_exist() {
    let mut pages = vec![root().join("README.md")];
    files(&root().join("docs"), "md", &mut pages);
    let mut findings = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page).expect("readable page");
        for (at, _) in text.match_indices("](") {
            let target: String = text[at + 2..].chars().take_while(|c| *c != ')').collect();
            let file = target.split('#').next().unwrap_or_default();
            let is_local = !file.is_empty() && !file.contains("://");
            if is_local && !page.parent().expect("a folder").join(file).exists() {
                findings.push(format!("{}: {target}", page.display()));
            }
        }
    }
    fail("links to nothing", &findings);
}

#[test]
fn the_top_level_is_the_one_the_architecture_names() {
    let expected: BTreeSet<&str> = [
        "Cargo.toml",
        "Cargo.lock",
        "README.md",
        "src",
        "migrations",
        "docs",
        "tests",
        "target",
    ]
    .into();
    let findings: Vec<String> = fs::read_dir(root())
        .expect("the root")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with('.') && !expected.contains(name.as_str()))
        .collect();
    fail("files at the top that do not belong there", &findings);
}
