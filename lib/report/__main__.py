"""``python -m lib.report --collection NAME``: write the report of outputs that are there."""

from __future__ import annotations

from lib import settings
from lib.files.errors import one_line_errors
from lib.report.page import write_report


def main() -> None:
    """Write ``<outputs>/<collection>/report.html`` anew."""
    args = settings.parser(__doc__).parse_args()
    resolved = settings.resolve(args)
    own = resolved.settings
    folder = args.outputs / own.results
    path = write_report(folder, resolved.root().measurements(own.collection))
    print(f"report: {own.results}: wrote {path}")


if __name__ == "__main__":
    with one_line_errors():
        main()
