// KaTeX on the spans that pymdownx.arithmatex marks, also after a change of page without a reload.
document$.subscribe(() => {
  const delimiters = [
    { left: "\\(", right: "\\)", display: false },
    { left: "\\[", right: "\\]", display: true },
  ];
  document.querySelectorAll(".arithmatex").forEach((span) => renderMathInElement(span, { delimiters }));
});
