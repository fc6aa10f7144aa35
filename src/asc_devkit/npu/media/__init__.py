"""Picture functions of the device's media unit on byte buffers: formats with strides, colour, resize, JPEG, PNG, video.

Buffers are flat uint8 arrays laid out as the device lays them out; nothing here knows of device memory or streams.
``compat/acl/media.py`` binds them to the `acl.media` calls. Page: ``docs/dvpp.md``.
"""
