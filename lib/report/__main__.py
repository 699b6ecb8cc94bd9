"""``python -m lib.report --collection NAME``: write the report of outputs that are there."""

from __future__ import annotations

from lib import settings
from lib.files.errors import one_line_errors
from lib.report.page import write_report


def main() -> None:
    """Write ``<outputs>/<collection>/report.html`` anew."""
    args = settings.parser(__doc__).parse_args()
    results = settings.resolve(args).settings.results
    print(f"report: {results}: wrote {write_report(args.outputs / results)}")


if __name__ == "__main__":
    with one_line_errors():
        main()
