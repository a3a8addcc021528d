"""`make release`: images by digest, their SBOMs, the sources and the notes of one version, in build/release/."""
