"""Packages of npm, where it is there and gets them: what pages are drawn with."""

_FILES = [".npmrc", "package.json", "package-lock.json", "prepare.js"]

def _install(repository_ctx):
    """Why the packages are not there; nothing where they are."""
    npm = repository_ctx.which("npm")
    node = repository_ctx.which("node")
    if not npm or not node:
        return "npm was not there"

    # One attempt for each package: on a machine without a network the build goes on at once.
    result = repository_ctx.execute(
        [npm, "ci", "--ignore-scripts", "--prefer-offline", "--fetch-retries=0"],
        timeout = 300,
    )
    if result.return_code != 0:
        return "npm could not get the packages"
    result = repository_ctx.execute([node, "prepare.js"])
    return "" if result.return_code == 0 else "npm's packages are not as they should be"

def _npm_packages_impl(repository_ctx):
    for name in _FILES:
        # A copy: npm looks for packages beside the file that a link leads to.
        content = repository_ctx.read(Label("//third_party/npm:" + name))
        repository_ctx.file(name, content, executable = False)
    missing = _install(repository_ctx)
    if missing:
        # buildifier: disable=print
        print("psring report will have no charts: " + missing)
        repository_ctx.delete("node_modules")
        repository_ctx.file("chart_library.js", "")
        repository_ctx.file("licences.txt", "")
    repository_ctx.file("missing.txt", missing)
    repository_ctx.file("BUILD", """\
package(default_visibility = ["//visibility:public"])

exports_files([
    "chart_library.js",
    "licences.txt",
    "missing.txt",
])

# Drives a browser; empty where it is not there.
filegroup(
    name = "playwright_core",
    srcs = glob(["node_modules/playwright-core/**"]),
)
""")

# Declares //:chart_library.js, //:licences.txt, //:playwright_core, and //:missing.txt,
# which says why they are empty, or nothing. Bazel looks again whenever it starts.
npm_packages = repository_rule(
    implementation = _npm_packages_impl,
    local = True,
)
