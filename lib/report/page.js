// Tables of graphs sort by the column whose head is pressed; again, the other way round.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const value = (row, index) => row.cells[index].textContent.replace("−", "-").trim();
  table.querySelectorAll("thead th").forEach((head, index) => {
    head.tabIndex = 0;
    head.setAttribute("role", "button");
    const sort = () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      table.querySelectorAll("thead th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...body.rows].sort((a, b) => {
        const [x, y] = [value(a, index), value(b, index)];
        const [m, n] = [parseFloat(x), parseFloat(y)];
        const order = isNaN(m) || isNaN(n) ? x.localeCompare(y) : m - n;
        return down ? -order : order;
      });
      body.append(...rows);
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        sort();
      }
    });
  });
}
