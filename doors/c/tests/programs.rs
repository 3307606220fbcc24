//! Programs in C and C++ (`tests/programs`), as gcc and clang compile them, linked with the library: under every
//! strategy, with 1, 2, 3 and 8 threads, if a promise depends on the scheduler. If a compiler is missing, its half is
//! left out with a message.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;
use vicus_testing::run_within;

/// The names of all strategies.
fn strategies() -> [&'static str; vicus::STRATEGIES.len()] {
    vicus::STRATEGIES.map(|strategy| strategy.name())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file built by cargo beside these tests, or in a folder above.
fn built(name: &str) -> Option<PathBuf> {
    let own = env::current_exe().expect("a test knows its file");
    own.ancestors().skip(1).take(2).map(|folder| folder.join(name)).find(|path| path.exists())
}

/// A folder with the library under its names for linking and for loading.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let library = built("libvicus_c.so").expect("cargo builds the library with its tests");
        let folder = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join("lib");
        fs::create_dir_all(&folder).expect("cargo has a folder for tests");
        for name in ["libvicus.so", env!("VICUS_SONAME")] {
            std::os::unix::fs::symlink(&library, folder.join(name)).expect("the folder is new");
        }
        folder
    })
}

/// A compiler of a language.
struct Compiler {
    command: &'static str,
    name: &'static str,
    standards: &'static [&'static str],
}

fn compilers(names: [(&'static str, &'static [&'static str]); 2], standards: &'static [&'static str]) -> Vec<Compiler> {
    let is_there =
        |command: &&str| Command::new(command).arg("--version").output().is_ok_and(|output| output.status.success());
    let found = names.into_iter().filter_map(|(name, commands)| {
        let command = commands.iter().copied().find(is_there);
        if command.is_none() {
            eprintln!("left out: {name} is not there");
        }
        command.map(|command| Compiler { command, name, standards })
    });
    found.collect()
}

fn for_c() -> Vec<Compiler> {
    compilers([("gcc", &["gcc"]), ("clang", &["clang-19", "clang"])], &["c11"])
}

const CPP: [&str; 2] = ["c++17", "c++20"];

fn for_cpp() -> Vec<Compiler> {
    compilers([("g++", &["g++"]), ("clang++", &["clang++-19", "clang++"])], &CPP)
}

/// The compilers of C++ for programs, which take long to compile and to run. Where there are two, each has a standard
/// of its own.
fn for_programs_in_cpp() -> Vec<Compiler> {
    let mut found = for_cpp();
    if found.len() == CPP.len() {
        found.iter_mut().zip(CPP.chunks(1)).for_each(|(compiler, standard)| compiler.standards = standard);
    }
    found
}

/// Compiles a program, with all warnings, and without one.
fn compile(compiler: &Compiler, standard: &str, file: &Path) -> PathBuf {
    let name = file.file_name().expect("a file").to_string_lossy().replace(['.', '+'], "-");
    let out = folder().join(format!("{name}-{}-{standard}", compiler.name));
    let output = Command::new(compiler.command)
        .args([
            &format!("-std={standard}"),
            "-O1",
            "-g",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Wshadow",
            "-Werror",
            "-pthread",
            "-I",
        ])
        .arg(root().join("include"))
        .arg(format!("-I{}", Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").display()))
        .arg(file)
        .arg("-o")
        .arg(&out)
        .arg(format!("-L{}", folder().display()))
        .args(["-lvicus", "-Wl,-rpath"])
        .arg(folder())
        .output()
        .expect("the compiler was there a moment ago");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} {}: {said}", compiler.command, file.display());
    out
}

/// The exit status and the output of a program. It has a minute.
fn run(program: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let ended = run_within(Command::new(program).args(arguments), Duration::from_secs(60));
    let ended = ended.expect("the program was compiled");
    (ended.code(), ended.out() + &ended.err())
}

fn program(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(file)
}

/// The program ends well, and prints `ok` and nothing else.
fn ends_well(compilers: &[Compiler], file: &str, arguments: &[Vec<String>]) {
    for compiler in compilers {
        for standard in compiler.standards {
            let compiled = compile(compiler, standard, &program(file));
            for arguments in arguments {
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                let (status, said) = run(&compiled, &arguments);
                assert_eq!(
                    (status, &*said),
                    (Some(0), "ok\n"),
                    "{file} by {}, {standard}, {arguments:?}",
                    compiler.name
                );
            }
        }
    }
}

fn everywhere() -> Vec<Vec<String>> {
    let with = |strategy: &str| [1, 2, 3, 8].map(|threads| vec![strategy.to_owned(), threads.to_string()]);
    strategies().into_iter().flat_map(with).collect()
}

/// With more warnings than a program may ask for.
#[test]
fn each_header_compiles_alone() {
    let include = root().join("include");
    let library = fs::read_dir(include.join("vicus/library")).expect("it is there");
    let mut headers: Vec<String> = vec!["vicus.h".to_owned(), "vicus.hpp".to_owned()];
    headers.extend(
        library.map(|entry| format!("vicus/library/{}", entry.expect("an entry").file_name().to_string_lossy())),
    );
    let check = |compiler: &Compiler, standard: &str, header: &str| {
        let text = folder().join(format!("{}-{}-{standard}.cpp", header.replace(['/', '.'], "-"), compiler.name));
        fs::write(&text, format!("#include <{header}>\n#include <{header}>\n")).expect("the folder can be written");
        let language = if standard.starts_with("c++") { "c++" } else { "c" };
        says(
            Command::new(compiler.command)
                .arg(format!("-std={standard}"))
                .args(["-x", language, "-fsyntax-only"])
                .args(["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"])
                .arg("-I")
                .arg(&include)
                .arg(&text),
        );
    };
    for compiler in for_cpp() {
        for standard in compiler.standards {
            headers.iter().for_each(|header| check(&compiler, standard, header));
        }
    }
    for compiler in for_c() {
        for standard in ["c11", "c17"] {
            check(&compiler, standard, "vicus.h");
        }
    }
}

#[test]
fn tasks_in_c() {
    ends_well(&for_c(), "tasks.c", &everywhere());
}

#[test]
fn tasks_in_cpp() {
    ends_well(&for_programs_in_cpp(), "tasks.cpp", &everywhere());
}

#[test]
fn memory_and_queues() {
    ends_well(&for_programs_in_cpp(), "memory.cpp", &everywhere());
}

#[test]
fn matrices_and_map_reduce_in_c() {
    ends_well(&for_c(), "matrices.c", &everywhere());
}

#[test]
fn matrices_and_map_reduce_in_cpp() {
    ends_well(&for_programs_in_cpp(), "matrices.cpp", &everywhere());
}

#[test]
fn arrow_in_c() {
    ends_well(&for_c(), "arrow.c", &everywhere());
}

#[test]
fn columns_of_every_type_in_c() {
    ends_well(&for_c(), "types.c", &everywhere());
}

#[test]
fn networks() {
    ends_well(&for_programs_in_cpp(), "network.cpp", &everywhere());
}

#[test]
fn queries() {
    for compiler in for_cpp() {
        let compiled = compile(&compiler, "c++17", &program("queries.cpp"));
        for arguments in everywhere() {
            let files = folder().join(format!("files-{}", compiler.name));
            fs::create_dir(&files).expect("the folder is new");
            let (status, said) = run(&compiled, &[&arguments[0], &arguments[1], &files.to_string_lossy()]);
            assert_eq!((status, &*said), (Some(0), "ok\n"), "{}, {arguments:?}", compiler.name);
            fs::remove_dir_all(files).expect("it is there");
        }
    }
}

#[test]
fn what_is_wrong_is_told() {
    ends_well(&for_c(), "wrong.c", &[Vec::new()]);
}

/// The programs in C and in C++ that the documents show, as they show them, in files.
fn of_the_documents() -> [(&'static str, PathBuf); 2] {
    let page = fs::read_to_string(root().join("docs/c.md")).expect("the page is there");
    [("c", "vicus.h"), ("cpp", "vicus.hpp")].map(|(language, header)| {
        let fence = format!("```{language}\n");
        let mut blocks = page.split(&*fence).skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
        let shown = blocks.find(|block| block.starts_with(&format!("#include <{header}>")));
        let file = folder().join(format!("shown.{language}"));
        let text = shown.unwrap_or_else(|| panic!("docs/c.md has a program with {header}"));
        // Tests run side by side, and another one may just read it.
        if fs::read_to_string(&file).is_ok_and(|written| written == text) {
            return (language, file);
        }
        let part = file.with_extension(format!("part-{:?}", thread::current().id()));
        fs::write(&part, text).and_then(|()| fs::rename(&part, &file)).expect("the folder can be written");
        (language, file)
    })
}

/// The output of both of them.
const SAID: (Option<i32>, &str) = (Some(0), "332833500\n");

#[test]
fn the_programs_of_the_documents_run() {
    for (language, file) in of_the_documents() {
        for compiler in if language == "c" { for_c() } else { for_cpp() } {
            for standard in compiler.standards {
                let (status, said) = run(&compile(&compiler, standard, &file), &[]);
                assert_eq!((status, &*said), SAID, "{language} by {}, {standard}", compiler.name);
            }
        }
    }
}

fn says(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {out}{err}");
    out.into_owned()
}

/// `./dev install`, below a folder whose name has a space; then programs find it by the folder, by pkg-config and by
/// CMake.
#[test]
fn what_is_installed_is_found() {
    let is_there = |command: &str| Command::new(command).arg("--version").output().is_ok();
    let (prefix, build) = (folder().join("in stalled"), folder().join("cmake"));
    let library = built("libvicus_c.so").expect("cargo builds the library with its tests");
    let from = library.parent().expect("it lies in a folder");
    says(Command::new(root().join("dev")).args(["install", "--prefix"]).arg(&prefix).arg("--library").arg(from));
    let name = env!("VICUS_SONAME");
    let version = env!("CARGO_PKG_VERSION");
    let links =
        |link: &str| fs::read_link(prefix.join("lib").join(link)).unwrap_or_else(|error| panic!("{link}: {error}"));
    assert_eq!((links("libvicus.so"), links(name)), (name.into(), format!("libvicus.so.{version}").into()));
    let [(_, in_c), (_, in_cpp)] = of_the_documents();
    if is_there("pkg-config") {
        let pkg_config = |what: &str| {
            says(Command::new("pkg-config").args([what, "vicus"]).env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")))
        };
        assert_eq!(pkg_config("--modversion").trim(), version);
        // Spaces are escaped as a shell reads them.
        let line = format!(
            "cc {} -o {} {} {}",
            in_c.display(),
            prefix.join("by-pkg-config").display().to_string().replace(' ', "\\ "),
            pkg_config("--cflags").trim(),
            pkg_config("--libs").trim()
        );
        says(Command::new("sh").args(["-c", &line]));
        let said = says(Command::new(prefix.join("by-pkg-config")).env("LD_LIBRARY_PATH", prefix.join("lib")));
        assert_eq!(said, SAID.1);
    } else {
        eprintln!("left out: pkg-config is not there");
    }
    if is_there("cmake") {
        let consumer = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/consumer");
        let programs = format!("-DPROGRAMS={}", in_cpp.parent().expect("it lies in a folder").display());
        let found = format!("-DCMAKE_PREFIX_PATH={}", prefix.display());
        says(Command::new("cmake").arg("-S").arg(consumer).arg("-B").arg(&build).args([programs, found]));
        says(Command::new("cmake").arg("--build").arg(&build));
        for name in ["in_c", "in_cpp"] {
            assert_eq!(says(&mut Command::new(build.join(name))), SAID.1, "{name}");
        }
    } else {
        eprintln!("left out: CMake is not there");
    }
    if is_there("make") && is_there("g++") {
        // Make's lists of files have no names with spaces.
        let link = folder().join("installed");
        std::os::unix::fs::symlink(&prefix, &link).expect("the folder is new");
        let mut make = Command::new("make");
        make.args(["-s", "-C"]).arg(root().join("examples/cpp/jacobi3d")).args([
            "CXX=g++",
            "CXXFLAGS=-O1 -Werror",
            "check",
        ]);
        let build = folder().join("jacobi3d");
        make.arg(format!("VICUS={}", link.join("include").display())).arg(format!("BUILD={}", build.display()));
        let said = says(&mut make);
        assert!(said.contains("ours-kji") && said.contains("bit for bit"), "{said}");
    } else {
        eprintln!("left out: examples/cpp/jacobi3d, for want of make or g++");
    }
    // In one piece, without the shared library.
    let out = prefix.join("static");
    let archive = prefix.join("lib/libvicus.a");
    says(Command::new("cc").arg("-I").arg(prefix.join("include")).arg(&in_c).arg("-o").arg(&out).arg(archive).args([
        // Without symbols, of which the archive has those of all dependencies.
        "-s",
        "-lgcc_s",
        "-lutil",
        "-lrt",
        "-lpthread",
        "-lm",
        "-ldl",
    ]));
    assert_eq!(says(&mut Command::new(out)), SAID.1);
}
