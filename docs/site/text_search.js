// Search in the text of the pages: every word must occur in a section, if only as the beginning of a
// word. textIndex is [title, section, link, text] for each section, made when the site is built.
(() => {
  const input = document.getElementById("text-search-words");
  const results = document.getElementById("text-search-results");
  const count = document.getElementById("text-search-count");
  const most = 40;

  // A section's rank: a word in a heading counts as ten in the text; 0 when a word is missing.
  function rank(entry, words) {
    let sum = 0;
    for (const word of words) {
      const inHeading = (entry[0] + " " + entry[1]).match(word);
      const inText = entry[3].match(word);
      if (!inHeading && !inText) return 0;
      sum += 10 * (inHeading || []).length + Math.min((inText || []).length, 9);
    }
    return sum;
  }

  // The text around the first hit, or its beginning where only a heading has one, with all hits marked.
  function excerpt(text, words) {
    const any = new RegExp(words.map(w => w.source).join("|"), "giu");
    const start = Math.max(0, text.search(any) - 60);
    const piece = text.slice(start, start + 220);
    const box = document.createElement("p");
    let end = 0;
    for (const hit of piece.matchAll(any)) {
      box.append(piece.slice(end, hit.index));
      const mark = document.createElement("mark");
      mark.textContent = hit[0];
      box.append(mark);
      end = hit.index + hit[0].length;
    }
    box.append(piece.slice(end));
    return box;
  }

  function search() {
    results.replaceChildren();
    const words = input.value.trim().split(/\s+/).filter(Boolean).map(
      w => new RegExp("(?<![\\p{L}\\p{N}_])" + w.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "giu"));
    if (!words.length) { count.textContent = ""; return; }
    const found = textIndex.map(entry => [rank(entry, words), entry]).filter(([r]) => r > 0)
      .sort((a, b) => b[0] - a[0]);
    const holding = words.length > 1 ? (found.length === 1 ? " has all the words" : " have all the words") : "";
    count.textContent = (found.length === 1 ? "1 section" : `${found.length} sections`) + holding +
      (found.length > most ? `, the first ${most} are shown` : "");
    for (const [, entry] of found.slice(0, most)) {
      const item = document.createElement("li");
      const link = document.createElement("a");
      link.href = entry[2];
      link.textContent = entry[1] ? `${entry[0]}: ${entry[1]}` : entry[0];
      item.append(link, excerpt(entry[3], words));
      results.append(item);
    }
  }

  document.getElementById("text-search").addEventListener("submit", e => e.preventDefault());
  input.addEventListener("input", search);
  input.value = new URLSearchParams(location.search).get("q") || "";
  search();
  input.focus();
})();
